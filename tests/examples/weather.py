"""Tests of `[weather]`."""

from examples.training import COMPARED, PROBED, STAGED, chosen, fitted, rebuilt, stopped, stored
from hpcai.record.dataset import Dataset
from hpcai.results.alterations import changed, together
from hpcai.results.claim import Subject
from hpcai.workloads.weather.loading_claims import BOX_BYTES

TWO_MODELS, ONE_MODEL = stored("weather")
NO_EVALUATION = changed("raw.preparation.vendor_comparison.evaluated", None)
FRAMES = Dataset(
    name="extremeweather-48x72",
    fingerprint="0" * 64,
    shape=(16, 48, 72),
    classes=4,
    training_samples=60,
    validation_samples=48,
)


def files() -> Subject:
    """A test on packed frames, each of which is read whenever it is used in training."""
    classes = [0.01, 0.005, 0.02, 0.03]
    trained, nbytes = TWO_MODELS.entry.raw.work.samples, 2 * 16 * 48 * 72
    changes = {
        "raw.ensemble.precision": classes,
        "raw.ensemble.loose_precision": [0.1] * 4,
        "raw.ensemble.bag_precision": classes,
        "raw.ensemble.true_boxes": [30, 40, 50, 60],
        "raw.curve.*.average_precision": classes,
        "raw.members": {"sum": 0.0325, "min": 0.01625, "max": 0.01625, "best": 0.01625},
        "raw.loading": {
            "bytes_read": trained * nbytes, "read_seconds": 1.0, "decompress_seconds": 1.0, "load_seconds": 2.0
        },
        "memory.data.image_bytes": nbytes,
        "memory.data.data_bytes": 10**6,
    }  # fmt: skip
    alteration = together(*(changed(path, value) for path, value in changes.items()))
    settings = {"DATASET": "extremeweather:x", "RESOLUTION": 48, "CLASSES": 0, "SAMPLES": 60, "TARGET": 0.0}
    return fitted(TWO_MODELS, FRAMES, 0.35, alteration, **settings)


TWO_COPIES = changed("memory.data.data_bytes", 2 * BOX_BYTES * (60 + 48))
EXAMPLES = {
    "": TWO_MODELS,
    "one model": ONE_MODEL,
    "files": files(),
    "custom": rebuilt(TWO_MODELS, COMPARED, NO_EVALUATION, KERNELS="custom"),
    "auto": chosen(TWO_MODELS, NO_EVALUATION),
    "bf16": rebuilt(TWO_MODELS, PROBED, PRECISION="bf16"),
    "staged": rebuilt(ONE_MODEL, STAGED, TWO_COPIES, STAGE="local"),
}
STOPPED_EXAMPLES = {name: stopped(subject) for name, subject in EXAMPLES.items()}

"""Tests of `[language]`."""

from examples.training import COMPARED, PROBED, STAGED, chosen, fitted, rebuilt, stopped, stored
from hpcai.record.dataset import Dataset
from hpcai.results.alterations import changed, together
from hpcai.results.claim import Subject

TWO_MODELS, ONE_MODEL = stored("language")
PLACES, WINDOWS = 32, 50
WITHOUT_STATISTICS = changed("raw.preparation.vendor_comparison.statistics", None)
SEQUENCES = Dataset(
    name=f"text-{PLACES}-00000000",
    fingerprint="0" * 64,
    shape=(1, 1, PLACES),
    classes=256,
    training_samples=128,
    validation_samples=WINDOWS,
)


def files() -> Subject:
    """A test on files, whose source is not known."""
    predicted = PLACES + (WINDOWS - 1) * (PLACES // 2)
    of_split = {"bits": 5.9 * predicted, "predicted": predicted, "differences": None, "difference_squares": None}
    evaluated = {**of_split, "sequences": WINDOWS, "agreeing_pairs": 100}
    bag = TWO_MODELS.entry.raw.ensemble
    changes = {
        **{f"raw.curve.*.{name}": value for name, value in of_split.items()},
        "raw.below": None,
        "raw.members": {"sum": 11.8, "min": 5.9, "max": 5.9, "best": 5.9},
        "raw.ensemble": {
            "validation": evaluated,
            "test": evaluated,
            "bag_evaluated": bag.bag_evaluated,
            "bag_bits": 10.0,
            "bag_predicted": bag.bag_evaluated * PLACES,
        },
        "memory.data.data_bytes": 10**6,
    }
    alteration = together(*(changed(path, value) for path, value in changes.items()))
    settings = {"DATASET": "text:x", "CLASSES": 256, "SAMPLES": 128, "TARGET": 0.0}
    return fitted(TWO_MODELS, SEQUENCES, 2.0, alteration, **settings)


EXAMPLES = {
    "": TWO_MODELS,
    "one model": ONE_MODEL,
    "files": files(),
    "custom": rebuilt(TWO_MODELS, COMPARED, WITHOUT_STATISTICS, KERNELS="custom"),
    "auto": chosen(TWO_MODELS, WITHOUT_STATISTICS),
    "bf16": rebuilt(TWO_MODELS, PROBED, PRECISION="bf16"),
    "staged": rebuilt(ONE_MODEL, STAGED, STAGE="local"),
}
STOPPED_EXAMPLES = {name: stopped(subject) for name, subject in EXAMPLES.items()}

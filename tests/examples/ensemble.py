"""Tests of `[ensemble]`."""

from examples.training import COMPARED, PROBED, STAGED, chosen, fitted, rebuilt, stopped, stored
from hpcai.data import catalog, fashion_mnist
from hpcai.data.image_dataset import description
from hpcai.record.dataset import Dataset
from hpcai.results.alterations import changed
from hpcai.results.claim import Subject

TWO_MODELS, ONE_MODEL = stored("ensemble")
FULL = Dataset(
    name="fashion-mnist",
    fingerprint=fashion_mnist.PUBLISHED,
    shape=(1, 28, 28),
    classes=10,
    training_samples=60_000,
    validation_samples=10_000,
)
PART = Dataset(
    name="fashion-mnist-altered",
    fingerprint="1" * 64,
    shape=(1, 28, 28),
    classes=10,
    training_samples=1000,
    validation_samples=10_000,
)
IMAGENET = Dataset(
    name="imagenet",
    fingerprint="0" * 64,
    shape=(3, 224, 224),
    classes=1000,
    training_samples=1_281_167,
    validation_samples=50_000,
)


def generated() -> Subject:
    """A test on generated images of the given number of classes."""
    settings = {"DATASET": "generated", "CLASSES": 4, "SAMPLES": 64}
    data = catalog.open_for({**TWO_MODELS.case.data_settings, **settings})
    nbytes = changed("memory.data.data_bytes", 0)
    image = changed("memory.data.image_bytes", data.shape[0] * data.shape[1] * data.shape[2])
    return fitted(TWO_MODELS, description(data), 0.99, nbytes, image, **settings, TARGET=0.99)


def packed() -> Subject:
    """A test on packed images."""
    size = changed("memory.data.image_bytes", 3 * 256**2)
    labels = changed("memory.data.data_bytes", 20 * (IMAGENET.training_samples + IMAGENET.validation_samples))
    settings = {"DATASET": "imagenet:x", "SAMPLES": 0, "TARGET": 0.0}
    return fitted(ONE_MODEL, IMAGENET, 0.763, size, labels, **settings)


UNKEPT = changed("memory.data.data_bytes", 0)
EXAMPLES = {
    "": TWO_MODELS,
    "one model": ONE_MODEL,
    "generated": generated(),
    "files": fitted(TWO_MODELS, FULL, 0.9, UNKEPT, DATASET="fashion:full", SAMPLES=0, TARGET=0.0),
    "part of files": fitted(TWO_MODELS, PART, 0.9, UNKEPT, DATASET="fashion:x", SAMPLES=1000, TARGET=0.0),
    "packed": packed(),
    "custom": rebuilt(TWO_MODELS, COMPARED, KERNELS="custom"),
    "auto": chosen(TWO_MODELS),
    "bf16": rebuilt(TWO_MODELS, PROBED, PRECISION="bf16"),
    "staged": rebuilt(ONE_MODEL, STAGED, STAGE="local"),
}
STOPPED_EXAMPLES = {name: stopped(subject) for name, subject in EXAMPLES.items()}

"""Claims about image datasets: shipped, generated, Fashion-MNIST's files, packed images."""

from collections.abc import Callable, Mapping
from math import prod

from hpcai.claims.dataset_claims import Holds, dataset_of, described, same_everywhere, target_claim
from hpcai.data import catalog, fashion_mnist, packed_images
from hpcai.data.dataset_paths import GENERATED
from hpcai.data.image_dataset import description
from hpcai.data.image_shards import CHANNELS, SIDE
from hpcai.inputfile import Case
from hpcai.inputfile.key import Value
from hpcai.record.dataset import Dataset
from hpcai.results.alterations import changed
from hpcai.results.claim import Claim, Subject

SAME_EVERYWHERE = ("fashion", GENERATED)  # values of DATASET available everywhere
FILES, PACKED = "fashion", "imagenet"  # prefixes of other values
TARGETS = {FILES: catalog.TARGET_FULL, PACKED: packed_images.TARGET}
FULL = {FILES: {"train": 60_000, "validation": 10_000}, PACKED: packed_images.SAMPLES}
PACKED_IMAGE = CHANNELS * SIDE**2  # bytes of a packed image


def _opened(settings: Mapping[str, Value]) -> tuple[Dataset, float]:
    found = catalog.open_for(settings)
    return description(found), found.target


known = same_everywhere(SAME_EVERYWHERE, _opened)


def is_packed(case: Case) -> bool:
    """Whether the images are packed in files, larger than the network sees them."""
    return case.dataset.startswith(f"{PACKED}:")


def image_bytes(subject: Subject) -> int:
    """Bytes of an image as it is read, or generated."""
    return PACKED_IMAGE if is_packed(subject.case) else prod(dataset_of(subject).shape)


def image_data(where: str = "raw.") -> tuple[Claim, ...]:
    """Claims about the description of images; `where` it stands in the entry."""

    def claim(kind: str, text: str, holds: Holds, field: str, value: object, example: str) -> Claim:
        return Claim(text, _of_kind(kind, holds), changed(f"{where}dataset.{field}", value), example)

    return (
        *described(known, where, generated="generated"),
        claim(FILES, "dataset: images of 1 x 28 x 28 in 10 classes", _fashion_shape, "shape", [1, 224, 224], "files"),
        claim(FILES, "dataset: the name that its fingerprint has", _fashion_name, "name", "imagenet", "files"),
        claim(
            FILES,
            "dataset: part of the published set is another set",
            _fashion_part,
            "fingerprint",
            fashion_mnist.PUBLISHED,
            "part of files",
        ),
        claim(FILES, "dataset: as many samples as its name says", _fashion_size, "validation_samples", 9, "files"),
        claim(PACKED, "dataset: images of 3 x 224 x 224", _packed_shape, "shape", [3, 448, 448], "packed"),
        claim(PACKED, "dataset: imagenet, or named after its content", _packed_name, "name", "imagefolder-4", "packed"),
        claim(PACKED, "dataset: imagenet has its samples and classes", _packed_size, "training_samples", 9, "packed"),
    )


def _of_kind(kind: str, holds: Holds) -> Callable[[Subject], bool]:
    """A claim about datasets of one kind; it holds for all others."""

    def check(subject: Subject) -> bool:
        spec = subject.case.dataset
        of_kind = spec not in SAME_EVERYWHERE and spec.partition(":")[0] == kind
        return not of_kind or holds(subject.case, dataset_of(subject))

    return check


def _fashion_shape(case: Case, data: Dataset) -> bool:
    shape = (1, fashion_mnist.SIDE, fashion_mnist.SIDE)
    return (data.shape, data.classes) == (shape, fashion_mnist.CLASSES)


def _fashion_name(case: Case, data: Dataset) -> bool:
    """The published dataset, or one with another fingerprint and name; a part has its own fingerprint."""
    either = (fashion_mnist.name(fashion_mnist.PUBLISHED), fashion_mnist.name(""))
    return data.name in (either if case.samples else (fashion_mnist.name(data.fingerprint),))


def _fashion_part(case: Case, data: Dataset) -> bool:
    return not case.samples or fashion_mnist.name(data.fingerprint) == fashion_mnist.name("")


def _fashion_size(case: Case, data: Dataset) -> bool:
    return data.name != fashion_mnist.name(fashion_mnist.PUBLISHED) or _full(case, data, FILES)


def _packed_shape(case: Case, data: Dataset) -> bool:
    return data.shape == (CHANNELS, packed_images.CROPS.evaluated, packed_images.CROPS.evaluated)


def _packed_name(case: Case, data: Dataset) -> bool:
    return data.name in (PACKED, packed_images.folder_name(data.classes, data.fingerprint))


def _packed_size(case: Case, data: Dataset) -> bool:
    return data.name != PACKED or (data.classes == packed_images.CLASSES and _full(case, data, PACKED))


def _full(case: Case, data: Dataset, kind: str) -> bool:
    """Whether it has the samples of the full dataset, or SAMPLES training samples and all validation samples."""
    train, validation = FULL[kind].values()
    whole = data.training_samples <= train if case.samples else data.training_samples == train
    return bool(whole and data.validation_samples == validation)


def _target(case: Case) -> float:
    found = known(case)
    return found[1] if found else TARGETS[case.dataset.partition(":")[0]]


IMAGE_DATA = (*image_data(), target_claim(_target))

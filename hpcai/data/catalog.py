"""Catalogue of the datasets: opens the one that a value of DATASET names, and lists its files."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcai.data import dataset_paths
from hpcai.errors import DataError

if TYPE_CHECKING:
    from mpi4py import MPI

    from hpcai.data.bootstrap import Mask
    from hpcai.data.image_dataset import ArraySplit, Dataset
    from hpcai.data.text.text_dataset import Text
    from hpcai.data.weather.weather_dataset import Weather

TARGET_SUBSET, TARGET_FULL = 0.85, 0.90
ASKED = ("SAMPLES", "CLASSES", "RESOLUTION", "SEED")  # KEYs that select the data, with DATASET


def check(spec: str) -> None:
    """Check that the files of a DATASET value exist, without reading them; DataError says what is allowed."""
    if spec != dataset_paths.GENERATED:
        dataset_paths.locate(spec)


def open_for(settings: Mapping[str, Any], copied: Path | None = None) -> "Dataset":
    """Open the dataset that the settings of a case name; see `open_dataset`."""
    asked = {name.lower(): settings[name] for name in ASKED}
    return open_dataset(settings["DATASET"], copied=copied, **asked)


def open_dataset(
    spec: str,
    samples: int = 0,
    copied: Path | None = None,
    *,
    classes: int = 0,
    resolution: int = 0,
    seed: int = 0,
) -> "Dataset":
    """Open the dataset that a DATASET value names; the last two stay in memory.

    samples: 0 for all, else that many training samples (2 … n), interleaved by class; validation stays whole.
    copied: path of a copy of the files that is read instead; it is not cached in memory, since copies are temporary.
    classes, resolution, seed: parameters of generated data, 0 for the defaults; other data have fixed ones.
    Raises DataError if the files are missing or damaged. The same on every rank.
    """
    if spec == dataset_paths.GENERATED:
        return _generated(samples, classes, resolution, seed)
    if is_weather(spec):
        raise DataError(f"dataset {spec} is of climate fields, not of images; allowed: {dataset_paths.ALLOWED}")
    opened = _open.__wrapped__(copied, samples) if copied else _open(dataset_paths.locate(spec), samples)
    if classes not in (0, opened.classes):
        raise DataError(f"{classes} classes of {opened.name}; allowed: 0 or the {opened.classes} that it has")
    return opened


def is_weather(spec: str) -> bool:
    """Whether a DATASET value names climate fields in files."""
    return spec.startswith(f"{dataset_paths.WEATHER}:")


def open_weather_for(
    settings: Mapping[str, Any], copied: Path | None = None, comm: "MPI.Comm | None" = None, *, surveyed: bool = True
) -> "Weather":
    """Open the climate fields that the settings of a case name; see `open_weather`."""
    asked = {name.lower(): settings[name] for name in ASKED}
    return open_weather(settings["DATASET"], copied=copied, comm=comm, surveyed=surveyed, **asked)


def open_weather(
    spec: str,
    samples: int = 0,
    copied: Path | None = None,
    comm: "MPI.Comm | None" = None,
    *,
    classes: int = 0,
    resolution: int = 0,
    seed: int = 0,
    surveyed: bool = True,
) -> "Weather":
    """Open the climate fields that a DATASET value names, generated or in files; `copied` as in `open_dataset`.

    samples: 0 for all, else that many training frames, evenly spread; validation stays whole. classes, resolution,
    seed: what generated fields are made by, 0 for the defaults; files have their own. Where published files have no
    statistics beside them yet, they are all read once, by the ranks of `comm` together: then it is collective. Not
    `surveyed`, they have neither statistics nor fingerprint: enough to plan with.
    Raises DataError if the files are missing, damaged, or of another layout. The same on every rank.
    """
    if spec == dataset_paths.GENERATED:
        return _generated_weather(samples, classes, resolution, seed)
    if not is_weather(spec):
        raise DataError(f"dataset {spec!r} is not one of climate fields; allowed: {dataset_paths.WEATHER_ALLOWED}")
    opened = _open_fields(copied or dataset_paths.locate(spec), samples, comm, surveyed)
    for word, asked, own in (("classes", classes, len(opened.classes)), ("rows", resolution, opened.shape[1])):
        if asked not in (0, own):
            raise DataError(f"{asked} {word} of {opened.name}; allowed: 0 or the {own} that it has")
    return opened


def open_text_for(settings: Mapping[str, Any], copied: Path | None = None) -> "Text":
    """Open the sequences of bytes that the settings of a case name, the last ones from memory; `copied` as above.

    RESOLUTION is the bytes of a sequence. Raises DataError if the files are missing, or too small. The same on every
    rank.
    """
    spec, asked = settings["DATASET"], (settings["SAMPLES"], settings["RESOLUTION"])
    if spec == dataset_paths.GENERATED:
        return _generated_text(*asked, settings["SEED"])
    return _open_text.__wrapped__(copied, spec, *asked) if copied else _open_text(None, spec, *asked)


@lru_cache(maxsize=2)
def _generated_text(samples: int, places: int, seed: int) -> "Text":
    from hpcai.data.text.generated_text import open_generated

    return open_generated(samples, places, seed)


@lru_cache(maxsize=2)
def _open_text(copied: Path | None, spec: str, samples: int, places: int) -> "Text":
    from hpcai.data.text.text_files import open_text

    enwik8 = spec.startswith(f"{dataset_paths.ENWIK8}:")
    return open_text(copied or dataset_paths.locate(spec), spec, samples, places, enwik8=enwik8)


@lru_cache(maxsize=2)
def _generated_weather(samples: int, classes: int, resolution: int, seed: int) -> "Weather":
    from hpcai.data.weather.generated import open_generated

    return open_generated(samples, classes, resolution, seed)


def _open_fields(path: Path, samples: int, comm: "MPI.Comm | None", surveyed: bool) -> "Weather":
    if (path / dataset_paths.WEATHER_INDEX).is_file():
        from hpcai.data.weather.packed import open_packed

        return open_packed(path, samples)
    from hpcai.data.weather.published import open_published

    return open_published(path, comm, samples, surveyed=surveyed)


@lru_cache(maxsize=2)
def _generated(samples: int, classes: int, resolution: int, seed: int) -> "Dataset":
    from hpcai.data.generated_images import open_generated

    return open_generated(samples, classes, resolution, seed)


def files(spec: str, samples: int = 0, needed: "Mask | None" = None) -> list[Path]:
    """The files that contain the validation samples and the training samples `needed` (None: all); empty without files.

    needed: one flag for each of the training samples that `open_dataset` selects with these `samples`.
    """
    if spec == dataset_paths.GENERATED:
        return []
    path = dataset_paths.locate(spec)
    if is_weather(spec):
        return _weather_files(path, samples, needed)
    if dataset_paths.is_text(spec):
        from hpcai.data.text.text_files import files_below

        return files_below(path)
    if path.is_file():
        return [path]
    if (path / dataset_paths.INDEX).is_file():
        from hpcai.data import packed_images

        return packed_images.files(path, samples, needed)
    names = [name for pair in dataset_paths.FILES.values() for name in pair]
    return [file for name in names if (file := dataset_paths.packed(path, name))]


def _weather_files(path: Path, samples: int, needed: "Mask | None") -> list[Path]:
    if (path / dataset_paths.WEATHER_INDEX).is_file():
        from hpcai.data.weather import packed

        return packed.files(path, samples, needed)
    from hpcai.data.weather import published

    return published.needed_files(path, samples, needed)


@lru_cache(maxsize=2)
def _open(path: Path, samples: int) -> "Dataset":
    if (path / dataset_paths.INDEX).is_file():
        from hpcai.data.packed_images import open_packed

        return open_packed(path, samples)
    from hpcai.data import fashion_mnist
    from hpcai.data.image_dataset import Dataset, fingerprint

    shipped = path.name == dataset_paths.SHIPPED.name
    train, validation = fashion_mnist.read_shipped(path) if shipped else fashion_mnist.read_folder(path)
    digest = fingerprint(train, validation)
    name = "fashion-mnist-subset" if shipped else fashion_mnist.name(digest)
    if samples:
        train = _limited(train, samples, path)
        digest = fingerprint(train, validation)
    return Dataset(
        name=name,
        source=str(path),
        shape=(1, fashion_mnist.SIDE, fashion_mnist.SIDE),
        classes=fashion_mnist.CLASSES,
        mean=(fashion_mnist.MEAN,),
        std=(fashion_mnist.STD,),
        target=TARGET_SUBSET if shipped else TARGET_FULL,
        fingerprint=digest,
        train=train,
        validation=validation,
    )


def _limited(train: "ArraySplit", samples: int, path: Path) -> "ArraySplit":
    if not 2 <= samples <= len(train):
        raise DataError(f"{samples} training samples of {path}; allowed: 0 (all) or 2 to {len(train)}")
    return train.balanced(samples)

"""Paths of the files of a dataset, by its name; looks at file names only, so that checking an input is cheap."""

from pathlib import Path

from hpcai.errors import DataError

SHIPPED = Path(__file__).parent / "shipped" / "fashion_mnist_6000_2000.h5"
DEBIAN = Path("/usr/share/datasets/fashion-mnist")
FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "validation": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
GENERATED = "generated"  # value without files
IMAGENET = "imagenet"  # kind of packed images, of which crops are used
INDEX = "index.json"  # index of a folder with image shards
PACKED = "a folder made by `python -P -m hpcai.data.pack SOURCE TARGET`"
WEATHER = "extremeweather"
WEATHER_INDEX = "weather.json"  # index of a folder with shards of climate fields
WEATHER_ALLOWED = f"{GENERATED} | {WEATHER}:PATH"
YEARS = "climo_*.h5"
TEXT, ENWIK8 = "text", "enwik8"  # kinds of bytes in files
ENWIK8_SOURCE = "https://mattmahoney.net/dc/enwik8.zip"
ALLOWED = f"fashion | fashion:full | fashion:PATH | {GENERATED} | {IMAGENET}:PATH"
_CURE = (
    "allowed: the package installed (apt-get install dataset-fashion-mnist), or without root"
    " `apt-get download dataset-fashion-mnist`, `dpkg -x dataset-fashion-mnist_*.deb PATH` and fashion:PATH"
)


def crops(spec: str) -> bool:
    """Whether a DATASET value is of images of which crops are used."""
    return spec.partition(":")[0] == IMAGENET


def locate(spec: str) -> Path:
    """The file or folder that a DATASET value names; DataError if it cannot be found or the value is unknown."""
    try:
        return _located(spec)
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}; allowed: folders that may be searched"
        raise DataError(f"dataset {spec}: {reason}") from None
    except RuntimeError as error:  # ~USER of an unknown user
        raise DataError(f"dataset {spec}: {error} allowed: ~ or ~USER of a user who has a home") from None


def _located(spec: str) -> Path:
    kind, colon, path = spec.partition(":")
    if kind == IMAGENET and path:
        return _shards(spec, Path(path).expanduser())
    if kind == WEATHER and path:
        return _fields(spec, Path(path).expanduser())
    if kind in (TEXT, ENWIK8) and path:
        return _bytes(spec, Path(path).expanduser(), folders=kind == TEXT)
    if kind != "fashion" or (colon and not path):
        raise DataError(f"dataset {spec!r} is unknown; allowed: {ALLOWED}")
    if not path:
        return _shipped()
    return _folder(spec, DEBIAN, _CURE) if path == "full" else _folder(spec, Path(path).expanduser())


def packed(folder: Path, name: str) -> Path | None:
    """The file of that name in the folder, compressed or not; None if neither exists."""
    return next((file for file in (folder / f"{name}.gz", folder / name) if file.is_file()), None)


def _shipped() -> Path:
    if not SHIPPED.is_file():
        raise DataError(f"{SHIPPED} is missing, the installation is incomplete; allowed: install hpcai-bench again")
    return SHIPPED


def _shards(spec: str, path: Path) -> Path:
    if not (path / INDEX).is_file():
        fault = f"has no {INDEX}" if path.is_dir() else "is not a folder"
        raise DataError(f"dataset {spec}: {path} {fault}; allowed: {PACKED}")
    return path.resolve()


def _fields(spec: str, path: Path) -> Path:
    if not (path.is_file() or (path / WEATHER_INDEX).is_file() or any(path.glob(YEARS))):
        fault = f"has neither {WEATHER_INDEX} nor files {YEARS}" if path.is_dir() else "is not there"
        raise DataError(
            f"dataset {spec}: {path} {fault}; allowed: a folder with the published files climo_YYYY.h5, one such file, "
            "or a folder made by `python -P -m hpcai.data.pack_weather SOURCE TARGET`"
        )
    return path.resolve()


def _bytes(spec: str, path: Path, *, folders: bool) -> Path:
    if not (path.is_file() or (folders and path.is_dir())):
        allowed = "a file or a folder" if folders else f"the file enwik8, unpacked from {ENWIK8_SOURCE}"
        raise DataError(f"dataset {spec}: {path} is not there; allowed: {allowed}")
    return path.resolve()


def is_text(spec: str) -> bool:
    """Whether a DATASET value names bytes in files."""
    return spec.startswith((f"{TEXT}:", f"{ENWIK8}:"))


def _folder(spec: str, path: Path, cure: str = "") -> Path:
    names = [name for pair in FILES.values() for name in pair]
    for folder in (path, path / DEBIAN.relative_to("/")):
        if all(packed(folder, name) for name in names):
            return folder.resolve()
    missing = ", ".join(name for name in names if not packed(path, name))
    allowed = cure or f"allowed: a folder with {', '.join(names)}, each with or without .gz, or one above {DEBIAN}"
    raise DataError(f"dataset {spec}: {path} {'lacks ' + missing if path.is_dir() else 'is not a folder'}; {allowed}")

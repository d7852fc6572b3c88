"""Fashion-MNIST: the four published IDX files, and the subset of them that comes with the package.

Source: Xiao, Rasul, Vollgraf, "Fashion-MNIST: a novel image dataset for benchmarking machine learning algorithms",
arXiv:1708.07747.
"""

import gzip
import hashlib
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hpcai.data.dataset_paths import FILES, packed
from hpcai.data.image_dataset import ArraySplit, fingerprint
from hpcai.errors import DataError

if TYPE_CHECKING:
    import h5py

CLASSES = 10
SIDE = 28
MEAN, STD = 0.2860, 0.3530
SHIPPED = "5974e047eb11e77b07410b0772620d58a43b06fd15e5f275917e53d7ce3f44eb"  # of the file itself
PUBLISHED = "2449ce84f4ef869743b1409eb6775e8d99b58d67a7e5fec029431deab4bbe556"


# What h5py raises for files in which a bit here or there is another one.
_DAMAGE = (OSError, LookupError, ValueError, TypeError, AttributeError, RuntimeError, ArithmeticError, MemoryError)


def name(digest: str) -> str:
    """Name of a full set by the fingerprint of its contents: only the published one is called `fashion-mnist`."""
    return "fashion-mnist" if digest == PUBLISHED else "fashion-mnist-altered"


def read_folder(folder: Path) -> tuple[ArraySplit, ArraySplit]:
    """Training and validation split from a folder with the IDX files; DataError names the file that is not right."""
    train, validation = (_read_split(folder, images, labels) for images, labels in FILES.values())
    return train, validation


def read_subset(path: Path) -> tuple[ArraySplit, ArraySplit]:
    """Training and validation split from an HDF5 file made by hpcai.data.subset; DataError if it is damaged."""
    import h5py

    try:
        with h5py.File(path, "r", locking=False) as file:  # shared file systems often cannot lock
            train, validation = (_hdf5_split(file[name]) for name in FILES)
            stored = str(file.attrs["sha256"])
    except _DAMAGE as error:
        raise DataError(f"{path} cannot be read ({error}); allowed: a file made by hpcai.data.subset") from error
    if fingerprint(train, validation) != stored:
        raise DataError(f"{path} is damaged: contents of SHA-256 {fingerprint(train, validation)}; allowed: {stored}")
    return train, validation


def read_shipped(path: Path) -> tuple[ArraySplit, ArraySplit]:
    """The subset that comes with the package, there or in a copy; DataError if one bit of the file is another one.

    The file is known by its SHA-256 before the HDF5 library sees it, which damaged headers can keep busy for ever.
    """
    digest = hashlib.sha256(_content(path)).hexdigest()
    if digest != SHIPPED:
        raise DataError(f"{path} is damaged: SHA-256 {digest}; allowed: {SHIPPED}, install hpcai-bench again")
    return read_subset(path)


def _hdf5_split(group: "h5py.Group") -> ArraySplit:
    return ArraySplit(group["images"][:], group["labels"][:].astype(np.int64))


def _read_split(folder: Path, images_name: str, labels_name: str) -> ArraySplit:
    images_file, images = _read_idx(folder, images_name, 3)
    labels_file, labels = _read_idx(folder, labels_name, 1)
    if images.shape[1:] != (SIDE, SIDE) or len(images) == 0:
        raise DataError(f"{images_file} holds images of shape {images.shape}; allowed: n x {SIDE} x {SIDE}, n > 0")
    if len(images) != len(labels):
        raise DataError(
            f"{labels_file} holds {len(labels)} labels; allowed: {len(images)}, one for each of {images_file}"
        )
    if labels.max() >= CLASSES:
        raise DataError(f"{labels_file} holds the label {labels.max()}; allowed: 0 to {CLASSES - 1}")
    return ArraySplit(images[:, None], labels.astype(np.int64))


def _read_idx(folder: Path, name: str, dimensions: int) -> tuple[Path, npt.NDArray[np.uint8]]:
    file = packed(folder, name)
    if file is None:
        raise DataError(f"{folder / name} is missing; allowed: it or {name}.gz")
    content = _content(file)
    magic = bytes([0, 0, 8, dimensions])
    header = 4 + 4 * dimensions
    if content[:4] != magic or len(content) < header:
        raise DataError(f"{file} starts with {content[:header].hex()}; allowed: {magic.hex()} and {dimensions} sizes")
    shape = tuple(int(size) for size in np.frombuffer(content, ">u4", dimensions, 4))
    expected = header + int(np.prod(shape, dtype=object))
    if len(content) != expected:
        raise DataError(f"{file} holds {len(content)} bytes; allowed: exactly {expected}, for its sizes are {shape}")
    return file, np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def _content(file: Path) -> bytes:
    try:
        return gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{file} cannot be read ({error}); allowed: a complete, readable file") from error

"""Made-up data in the published format of Fashion-MNIST, for tests."""

import gzip
from pathlib import Path

import numpy as np

from hpcai.data.dataset_paths import FILES


def images(classes, split=0):
    """Flat grey images, all different at the corner, those of two splits as well."""
    images = np.empty((len(classes), 28, 28), np.uint8)
    images[:] = (np.arange(len(classes)) % 251)[:, None, None]
    images[:, 0, 0] = classes
    images[:, 0, 1] = np.arange(len(classes)) // 251
    images[:, 0, 2] = split
    return images


def idx(array):
    """The IDX bytes of a uint8 array."""
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


def write_set(folder: Path, train, validation, compressed=True):
    """The four files for the classes of the two splits; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, ((image_file, label_file), classes) in enumerate(zip(FILES.values(), (train, validation), strict=True)):
        for name, array in ((image_file, images(classes, split)), (label_file, np.asarray(classes, np.uint8))):
            if compressed:
                (folder / f"{name}.gz").write_bytes(gzip.compress(idx(array), 1))
            else:
                (folder / name).write_bytes(idx(array))
    return folder

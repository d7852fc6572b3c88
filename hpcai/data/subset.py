"""Command that makes the shipped subset of Fashion-MNIST: `python -P -m hpcai.data.subset SOURCE TARGET`.

Takes the first 600 images of every class of the training files and the first 200 of the t10k files, interleaved
by class, so that the first k of them are balanced as well. The same source gives the same contents.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hpcai.data.dataset_paths import locate
from hpcai.data.fashion_mnist import CLASSES, read_folder
from hpcai.data.image_dataset import ArraySplit, fingerprint
from hpcai.errors import DataError, HpcaiError

PER_CLASS = {"train": 600, "validation": 200}
ATTRIBUTES = {
    "source": "Fashion-MNIST, Zalando Research, https://github.com/zalandoresearch/fashion-mnist",
    "licence": "MIT, Copyright (c) 2017 Zalando SE; text in LICENCE.fashion-mnist.txt",
    "made": "python -P -m hpcai.data.subset: the first 600 of each class of the training files and"
    " the first 200 of each class of the t10k files, classes in turn",
}


def choose(split: ArraySplit, per_class: int) -> ArraySplit:
    """The first `per_class` images of every class, interleaved by class; DataError if a class has fewer."""
    counts = np.bincount(split.classes, minlength=CLASSES)
    if counts.min() < per_class:
        raise DataError(f"class {counts.argmin()} has {counts.min()} images; allowed: at least {per_class}")
    return split.balanced(per_class * CLASSES)


def write(target: Path, train: ArraySplit, validation: ArraySplit) -> str:
    """Write both splits to an HDF5 file atomically; returns the fingerprint of the contents."""
    import h5py

    unfinished = target.with_name(target.name + ".unfinished")
    digest = fingerprint(train, validation)
    with h5py.File(unfinished, "w", libver="earliest") as file:
        file.attrs.update(ATTRIBUTES | {"sha256": digest})
        for name, split in zip(PER_CLASS, (train, validation), strict=True):
            options = {"compression": "gzip", "compression_opts": 9, "track_times": False}
            images = split.pixels
            file.create_dataset(f"{name}/images", data=images, chunks=(len(images) // 2, *images.shape[1:]), **options)
            file.create_dataset(f"{name}/labels", data=split.classes.astype(np.uint8), **options)
    os.replace(unfinished, target)
    return digest


def make(source: Path, target: Path) -> str:
    """Make the subset from a folder with the full set; returns the fingerprint of the contents."""
    splits = read_folder(locate(f"fashion:{source}"))
    train, validation = (choose(split, each) for split, each in zip(splits, PER_CLASS.values(), strict=True))
    return write(target, train, validation)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        "python -P -m hpcai.data.subset", description="Make the shipped Fashion-MNIST subset."
    )
    parser.add_argument("source", type=Path, help="folder with the four IDX files of the full set")
    parser.add_argument("target", type=Path, help="HDF5 file to write")
    options = parser.parse_args(arguments)
    try:
        print(f"{options.target}: SHA-256 of the contents {make(options.source, options.target)}")
    except HpcaiError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())

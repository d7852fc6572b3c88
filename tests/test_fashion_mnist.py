"""Fashion-MNIST's files: read, refused if damaged, and the subset made from them."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from idx_files import idx, images, write_set

from hpcai.data import fashion_mnist, subset
from hpcai.data.dataset_paths import DEBIAN, FILES, SHIPPED, locate
from hpcai.data.fashion_mnist import read_folder, read_subset
from hpcai.data.image_dataset import ArraySplit, fingerprint, interleaved
from hpcai.errors import DataError

TRAIN, VALIDATION = np.arange(40) % 10, np.arange(20) % 10
SUBSET = "8d30510d00542262901ef093d1542fc29b45493dbd0fe58687fbf245f41c2bb4"


@pytest.fixture
def folder(tmp_path):
    return write_set(tmp_path / "set", TRAIN, VALIDATION)


@pytest.mark.parametrize("compressed", [True, False])
def test_files_are_read_right(tmp_path, compressed):
    train, validation = read_folder(write_set(tmp_path / "set", TRAIN, VALIDATION, compressed))
    for number, (split, classes) in enumerate(((train, TRAIN), (validation, VALIDATION))):
        everything, expected = np.arange(len(classes)), images(classes, number)[:, None]
        assert len(split) == len(classes)
        assert np.array_equal(split.images(everything), expected)
        assert np.array_equal(split.labels(everything), classes)
        assert (split.images(everything).dtype, split.labels(everything).dtype) == (np.uint8, np.int64)
        assert np.array_equal(split.images(np.array([7, 3, 7])), expected[[7, 3, 7]])


LABELS, IMAGES = "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte"
FAULTS = {
    "magic": (LABELS, idx(TRAIN.astype(np.uint8)).replace(b"\0\0\x08\1", b"\0\0\x09\1"), "00000801"),
    "images where labels belong": (LABELS, idx(images(TRAIN)), "00000801"),
    "too short for a header": (LABELS, b"\0\0\x08\1\0", "1 sizes"),
    "empty": (LABELS, b"", "00000801"),
    "a byte short": (IMAGES, idx(images(VALIDATION))[:-1], "exactly 15696"),
    "a byte long": (IMAGES, idx(images(VALIDATION)) + b"\0", "exactly 15696"),
    "sizes that overflow": (IMAGES, b"\0\0\x08\3" + b"\xff" * 12, "allowed: exactly"),
    "another image size": (IMAGES, idx(np.zeros((20, 28, 27), np.uint8)), "28 x 28"),
    "no images": (IMAGES, idx(np.zeros((0, 28, 28), np.uint8)), "n > 0"),
    "fewer labels than images": (LABELS, idx(TRAIN[:-1].astype(np.uint8)), "allowed: 40"),
    "a label out of range": (LABELS, idx(np.full(40, 10, np.uint8)), "0 to 9"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("compressed", [True, False])
def test_damaged_files_are_refused_by_name(tmp_path, fault, compressed):
    name, content, allowed = FAULTS[fault]
    folder = write_set(tmp_path / "set", TRAIN, VALIDATION, compressed)
    file = folder / (name + ".gz" * compressed)
    file.write_bytes(gzip.compress(content) if compressed else content)
    with pytest.raises(DataError, match=allowed) as refused:
        read_folder(folder)
    assert str(file) in str(refused.value)
    assert "allowed" in str(refused.value)


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-9], lambda b: b[:40], lambda b: b"PK" + b[2:], lambda b: b[:-6] + b"\0" * 6]
)
def test_broken_compression_is_refused_by_name(folder, damage):
    file = folder / f"{IMAGES}.gz"
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(DataError, match="complete, readable file") as refused:
        read_folder(folder)
    assert str(file) in str(refused.value)


@pytest.mark.parametrize("name", [name for pair in FILES.values() for name in pair])
def test_a_set_with_a_missing_file_is_refused(folder, name):
    (folder / f"{name}.gz").unlink()
    with pytest.raises(DataError, match=name):
        read_folder(folder)


def test_interleaved_samples_cycle_through_the_classes():
    classes = np.array([2, 2, 0, 1, 2, 0, 0, 1, 2])
    assert interleaved(classes).tolist() == [2, 3, 0, 5, 7, 1, 6, 4, 8]


def test_fingerprint_depends_on_every_byte_and_on_the_split():
    def changed(array, at, value):
        copy = array.copy()
        copy.flat[at] = value
        return copy

    pixels, classes = images(TRAIN)[:, None], TRAIN.astype(np.int64)
    one = ArraySplit(pixels, classes)
    prints = {
        fingerprint(one, one),
        fingerprint(ArraySplit(changed(pixels, 999, 255), classes), one),
        fingerprint(one, ArraySplit(pixels, changed(classes, 39, 0))),
        fingerprint(ArraySplit(pixels.reshape(40, 1, 784, 1), classes), one),
        fingerprint(ArraySplit(pixels[:-1], classes[:-1]), one),
    }
    assert len(prints) == 5
    assert fingerprint(one, one) == fingerprint(ArraySplit(pixels.copy(), classes.astype(">i8")), one)


@pytest.fixture(scope="module")
def full_set(tmp_path_factory):
    """A made-up full set with 610 and 205 images a class, in no order."""
    random = np.random.default_rng(1)
    classes = [random.permutation(np.repeat(np.arange(10), each)) for each in (610, 205)]
    return write_set(tmp_path_factory.mktemp("full"), *classes)


def test_subset_is_the_first_of_each_class(full_set, tmp_path):
    target = tmp_path / "subset.h5"
    subset.make(full_set, target)
    for chosen, whole, each in zip(read_subset(target), read_folder(full_set), (600, 200), strict=True):
        assert np.array_equal(chosen.classes, np.tile(np.arange(10), each))
        for kind in range(10):
            of_kind = np.flatnonzero(whole.classes == kind)[:each]
            assert np.array_equal(chosen.pixels[chosen.classes == kind], whole.pixels[of_kind])


def test_subset_is_made_again_byte_by_byte(full_set, tmp_path):
    digests = {subset.make(full_set, tmp_path / name) for name in ("a.h5", "b.h5")}
    assert len(digests) == 1
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.h5", "b.h5"]


def test_subset_by_command(full_set, tmp_path):
    command = [sys.executable, "-m", "hpcai.data.subset", full_set, tmp_path / "subset.h5"]
    root = Path(__file__).parent.parent
    made = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert made.stdout.split()[-1] == fingerprint(*read_subset(tmp_path / "subset.h5"))


def test_subset_command_reports_the_missing_files(tmp_path, capsys):
    assert subset.main([str(tmp_path / "nowhere"), str(tmp_path / "subset.h5")]) == DataError.exit_code
    assert "nowhere is not a folder" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_subset_of_a_set_with_too_few_images_of_a_class_is_refused(folder, tmp_path):
    with pytest.raises(DataError, match="class 0 has 4 images; allowed: at least 600"):
        subset.make(folder, tmp_path / "subset.h5")


def test_damaged_subset_is_refused(full_set, tmp_path):
    target = tmp_path / "subset.h5"
    subset.make(full_set, target)
    with h5py.File(target, "r+") as file:
        file["train/labels"][17] += 1
    with pytest.raises(DataError, match="damaged"):
        read_subset(target)


@pytest.mark.parametrize("content", [b"", b"not HDF5"])
def test_unreadable_subset_is_refused(tmp_path, content):
    (tmp_path / "subset.h5").write_bytes(content)
    with pytest.raises(DataError, match=r"subset\.h5 cannot be read"):
        read_subset(tmp_path / "subset.h5")


def test_shipped_subset_contains_its_origin():
    with h5py.File(SHIPPED) as file:
        assert file.attrs["sha256"] == SUBSET
        assert "zalandoresearch" in file.attrs["source"]
        assert "MIT" in file.attrs["licence"]
        assert "hpcai.data.subset" in file.attrs["made"]
    licence = (SHIPPED.parent / "LICENCE.fashion-mnist.txt").read_text()
    assert "Zalando SE" in licence
    assert "Permission is hereby granted" in licence
    assert SHIPPED.stat().st_size < 4_000_000


@pytest.mark.slow
def test_shipped_subset_comes_from_the_full_set(tmp_path):
    """Needs the Debian package dataset-fashion-mnist, or its files in the folder that HPCAI_FASHION_MNIST names."""
    source = Path(os.environ.get("HPCAI_FASHION_MNIST", DEBIAN))
    if not source.is_dir():
        pytest.skip(f"NOT CHECKED against the full set: {source} is not there (package dataset-fashion-mnist)")
    assert subset.make(source, tmp_path / "subset.h5") == SUBSET
    train, validation = read_folder(locate(f"fashion:{source}"))
    assert (len(train), len(validation)) == (60_000, 10_000)
    assert fashion_mnist.name(fingerprint(train, validation)) == "fashion-mnist"
    assert round(float(train.pixels.mean() / 255), 4) == fashion_mnist.MEAN
    assert round(float(train.pixels.std() / 255), 4) == fashion_mnist.STD

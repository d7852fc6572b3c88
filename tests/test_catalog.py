"""Datasets by name: found, opened once, balanced, and refused with the allowed names."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from idx_files import images, write_set

from hpcai.data import catalog, dataset_paths, fashion_mnist
from hpcai.data.image_dataset import fingerprint
from hpcai.errors import DataError

TRAIN, VALIDATION = np.arange(40) % 10, np.arange(20) % 10
SUBSET = "8d30510d00542262901ef093d1542fc29b45493dbd0fe58687fbf245f41c2bb4"


@pytest.fixture
def folder(tmp_path):
    return write_set(tmp_path / "set", TRAIN, VALIDATION)


def test_shipped_subset(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    catalog.check("fashion")
    data = catalog.open_dataset("fashion")
    assert (data.name, data.fingerprint) == ("fashion-mnist-subset", SUBSET)
    assert (data.shape, data.classes, data.target) == ((1, 28, 28), 10, 0.85)
    assert (data.mean, data.std) == ((0.2860,), (0.3530,))
    for split, each in ((data.train, 600), (data.validation, 200)):
        everything = np.arange(len(split))
        assert np.bincount(split.labels(everything)).tolist() == [each] * 10
        assert split.images(everything).shape == (10 * each, 1, 28, 28)
    assert abs(data.train.images(np.arange(6000)).mean() / 255 - 0.2860) < 0.005


def test_splits_of_the_shipped_subset_share_no_image():
    data = catalog.open_dataset("fashion")
    train, validation = (
        {image.tobytes() for image in split.images(np.arange(len(split)))} for split in (data.train, data.validation)
    )
    assert len(train) > 5990
    assert not train & validation


def test_a_dataset_is_read_once():
    assert catalog.open_dataset("fashion") is catalog.open_dataset("fashion")


def test_checking_a_dataset_reads_nothing_and_imports_nothing_heavy():
    program = (
        "import sys; from hpcai.data import catalog; catalog.check('fashion');"
        "print([name for name in ('numpy', 'torch', 'h5py') if name in sys.modules])"
    )
    root = Path(__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("below", ["", "usr/share/datasets/fashion-mnist"])
def test_a_set_by_path(tmp_path, monkeypatch, compressed, below):
    write_set(tmp_path / "set" / below, TRAIN, VALIDATION, compressed)
    monkeypatch.chdir(tmp_path)
    catalog.check("fashion:set")
    data = catalog.open_dataset("fashion:set")
    assert (data.name, data.target) == ("fashion-mnist-altered", 0.90)
    assert data.fingerprint == fingerprint(*fashion_mnist.read_folder(tmp_path / "set" / below))
    assert data.source == str(tmp_path / "set" / below)
    assert np.array_equal(data.train.images(np.arange(40))[:, 0], images(TRAIN))
    assert np.array_equal(data.validation.labels(np.arange(20)), VALIDATION)


def test_the_full_set_is_found_in_debians_folder(folder, monkeypatch):
    monkeypatch.setattr(dataset_paths, "DEBIAN", folder)
    assert catalog.open_dataset("fashion:full").source == str(folder)


@pytest.mark.parametrize("verb", [catalog.check, catalog.open_dataset])
def test_a_missing_full_set_is_refused_with_the_remedy(tmp_path, monkeypatch, verb):
    monkeypatch.setattr(dataset_paths, "DEBIAN", tmp_path / "absent")
    with pytest.raises(DataError, match="absent is not a folder") as refused:
        verb("fashion:full")
    for cure in ("apt-get install dataset-fashion-mnist", "apt-get download", "dpkg -x", "fashion:PATH"):
        assert cure in str(refused.value)


@pytest.mark.parametrize("verb", [catalog.check, catalog.open_dataset])
@pytest.mark.parametrize("spec", ["", "mnist", "fashion:", "Fashion", "fashion-mnist", "imagenet", "imagenet:", ":x"])
def test_unknown_dataset(verb, spec):
    with pytest.raises(DataError, match=r"allowed: fashion \| fashion:full \| fashion:PATH"):
        verb(spec)


@pytest.mark.parametrize("verb", [catalog.check, catalog.open_dataset])
def test_an_incomplete_folder_is_refused_with_the_missing_files(folder, verb):
    (folder / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataError, match=r"set lacks t10k-labels-idx1-ubyte; allowed: a folder with"):
        verb(f"fashion:{folder}")


def test_missing_shipped_file(monkeypatch, tmp_path):
    monkeypatch.setattr(dataset_paths, "SHIPPED", tmp_path / "gone.h5")
    with pytest.raises(DataError, match=r"gone\.h5 is missing"):
        catalog.check("fashion")


@pytest.mark.parametrize("samples", [2, 10, 25, 1000, 6000])
def test_samples_stay_balanced(samples):
    data, whole = catalog.open_dataset("fashion", samples), catalog.open_dataset("fashion")
    labels = data.train.labels(np.arange(samples))
    counts = np.bincount(labels, minlength=10)
    assert len(data.train) == samples
    assert counts.max() - counts.min() <= 1
    assert len(data.validation) == 2000
    assert (data.fingerprint == whole.fingerprint) == (samples == 6000)


def test_samples_of_an_unbalanced_set(tmp_path):
    classes = np.array([0] * 20 + [1] * 5 + [2] * 10)
    data = catalog.open_dataset(f"fashion:{write_set(tmp_path / 'set', classes, VALIDATION)}", 18)
    assert np.bincount(data.train.labels(np.arange(18))).tolist() == [7, 5, 6]


@pytest.mark.parametrize("samples", [-1, 1, 6001])
def test_number_of_samples_out_of_range(samples):
    with pytest.raises(DataError, match=r"allowed: 0 \(all\) or 2 to 6000"):
        catalog.open_dataset("fashion", samples)


@pytest.mark.parametrize("kind", ["fashion", "imagenet", "extremeweather"])
def test_folders_without_permission_are_refused(tmp_path, kind):
    """For a user who is not root: root may search all folders."""
    (tmp_path / "set" / "inner").mkdir(parents=True)
    (tmp_path / "set").chmod(0)
    program = (
        "import os, sys; from hpcai.data import dataset_paths; from hpcai.errors import DataError\n"
        "os.getuid() or os.setuid(65534)\n"
        "try: dataset_paths.locate(sys.argv[1])\n"
        "except DataError as error: print(error)"
    )
    command = [sys.executable, "-c", program, f"{kind}:{tmp_path / 'set' / 'inner'}"]
    done = subprocess.run(command, cwd=Path(__file__).parent.parent, capture_output=True, text=True, check=True)
    (tmp_path / "set").chmod(0o700)
    assert "/set/inner" in done.stdout
    assert done.stdout.endswith(": Permission denied; allowed: folders that may be searched\n")


def test_an_unknown_home_is_refused():
    with pytest.raises(DataError, match="dataset fashion:~nobody_has_it/x: .* allowed: ~ or ~USER"):
        catalog.check("fashion:~nobody_has_it/x")

"""Generated datasets: the rule for their sizes, the same bytes in any order of reading, and datasets opened by name."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from launch import ROOT

from hpcai.data import catalog, fashion_mnist
from hpcai.data.generated_images import COVERED, MEAN, STD, formula, validation_samples
from hpcai.errors import DataError
from hpcai.formulas.eligibility import IMAGES, UNOFFICIAL, official

# samples, classes, resolution, seed: SHA-256. Any machine must make these bytes.
FINGERPRINTS = {
    (0, 0, 0, 1): "b468a79011332c6fa078f436c127ccbce60455a6a668b65b0255e2719faf8e20",
    (2000, 2, 8, 0): "6fcd830350a552c030a049625b192e444fffae64f662221ccb6ceb3b84be9c49",
    (5000, 100, 28, 2**63 - 1): "587150667a104e38438861fc13b00da4a503a3a9e61d70ac0488a79c781c668c",
    (1281167, 1000, 224, 1): "ab6bab4cae479c98f30fd906c3a64561fc95d08bd9930c1e3b74267a27559229",
}


def opened(samples=0, classes=0, resolution=0, seed=1):
    return catalog.open_dataset("generated", samples, classes=classes, resolution=resolution, seed=seed)


@pytest.mark.parametrize(("asked", "sha256"), FINGERPRINTS.items())
def test_every_machine_makes_these_bytes(asked, sha256):
    assert opened(*asked).fingerprint == sha256


def test_fingerprints_of_different_sets_differ():
    sets = [(), (60_001,), (0, 11), (0, 0, 33), (0, 0, 0, 2)]
    assert len({opened(*asked).fingerprint for asked in sets}) == len(sets)
    assert COVERED == 64  # the report says so


def test_defaults():
    data = opened()
    assert (data.name, data.shape, data.classes) == ("generated-10x32", (3, 32, 32), 10)
    assert (len(data.train), len(data.validation)) == (60_000, 10_000)
    assert data.fingerprint == opened(60_000, 10, 32).fingerprint
    assert "seed 1" in data.source


@pytest.mark.parametrize(
    ("classes", "resolution", "symbols", "grid", "twentieths", "relabelled"),
    [
        (10, 32, 16, 4, 6, 0.2),  # the small point of the design
        (1000, 224, 64, 7, 16, 0.1),  # the large one
        (2, 8, 16, 2, 6, 0.2),
        (10, 8, 16, 2, 5, 0.2),
        (99, 63, 16, 4, 6, 0.2),
        (100, 32, 64, 4, 6, 0.1),
        (1000, 63, 64, 4, 6, 0.1),
        (200, 64, 64, 7, 16, 0.1),
        (65536, 8, 64, 2, 0, 0.1),
        (65536, 1024, 64, 7, 15, 0.1),
    ],
)
def test_sizes_of_the_formula(classes, resolution, symbols, grid, twentieths, relabelled):
    made = formula(classes, resolution, 1)
    assert (made.symbols, made.grid, made.shifts, made.synonyms) == (symbols, grid, grid, 2)
    assert made.corrupted == twentieths * 2**32 // 20
    assert made.relabelled == int(relabelled * 2**32)


@pytest.mark.parametrize(
    ("samples", "expected"), [(2, 1000), (6000, 1000), (60_000, 10_000), (300_000, 50_000), (2**31 - 1, 50_000)]
)
def test_validation_samples(samples, expected):
    assert validation_samples(samples) == expected == len(opened(samples).validation)


def test_bytes_do_not_depend_on_the_order_of_reading():
    train = opened().train
    indices = np.random.default_rng(1).permutation(3000)[:500]
    images, labels = train.images(indices), train.labels(indices)
    parts = np.split(indices, [1, 2, 130, 400])
    assert np.array_equal(np.concatenate([train.images(part) for part in parts]), images)
    assert np.array_equal(np.concatenate([train.labels(part) for part in parts]), labels)
    assert np.array_equal(train.images(indices[::-1]), images[::-1])
    with ThreadPoolExecutor(4) as pool:
        assert np.array_equal(np.concatenate(list(pool.map(train.images, parts))), images)
    assert train.images(indices[:0]).shape == (0, 3, 32, 32)


def test_a_sample_does_not_depend_on_the_number_of_samples():
    few, many = np.arange(50), (opened(50).train, opened(10**9).train)
    assert np.array_equal(many[0].images(few), many[1].images(few))
    assert np.array_equal(many[0].labels(few), many[1].labels(few))


@pytest.mark.parallel(3)
def test_any_rank_makes_any_sample():
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    train, indices = opened(seed=9).train, np.arange(120)
    own = indices[comm.rank :: comm.size]
    parts = comm.allgather((train.images(own), train.labels(own)))
    for rank, (images, labels) in enumerate(parts):
        assert np.array_equal(images, train.images(indices[rank :: comm.size]))
        assert np.array_equal(labels, train.labels(indices[rank :: comm.size]))


def test_splits_and_seeds_share_no_image():
    few = np.arange(500)
    splits = [opened().train, opened().validation, opened(seed=2).train]
    images = [{image.tobytes() for image in split.images(few)} for split in splits]
    assert len(set.union(*images)) == 1500


def test_labels_are_balanced_and_a_fifth_is_drawn_anew():
    labels = opened().train.labels(np.arange(60_000))
    counts = np.bincount(labels, minlength=10)
    assert counts.min() > 5800 and counts.max() < 6200
    assert abs(np.mean(labels != np.arange(60_000) % 10) - 0.2 * 0.9) < 0.005


def test_images_are_normalised_by_their_own_mean_and_deviation():
    for asked in ((), (0, 1000, 64)):
        images = opened(*asked).train.images(np.arange(1000)) / 255
        assert abs(images.mean() - MEAN) < 0.01
        assert abs(images.std() - STD) < 0.01


def test_opening_computes_nothing_until_data_are_read():
    program = (
        "import sys; from hpcai.data import catalog; catalog.check('generated');"
        "assert 'numpy' not in sys.modules; data = catalog.open_dataset('generated');"
        "print(len(data.train), data.shape, [name for name in ('numba', 'torch', 'mpi4py') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "60000 (3, 32, 32) []\n"


def test_a_set_is_opened_once():
    assert opened() is opened()
    assert opened() is not opened(seed=2)


def test_target_is_a_share_of_the_ceiling():
    data = opened()
    assert 0.8 < data.ceiling < 0.82 and 0 < data.ceiling_error < 0.001
    assert data.target == pytest.approx(0.93 * data.ceiling)


def test_real_data_have_no_ceiling_and_no_generated_name():
    data = catalog.open_dataset("fashion")
    assert data.ceiling is data.ceiling_error is None
    assert not {data.name, fashion_mnist.name("0"), fashion_mnist.name(fashion_mnist.PUBLISHED)} & {opened().name}
    assert not data.name.startswith("generated")


@pytest.mark.parametrize("classes", [2, 100])
def test_classes_of_real_data_cannot_be_set(classes):
    with pytest.raises(
        DataError, match=rf"{classes} classes of fashion-mnist-subset; allowed: 0 or the 10 that it has"
    ):
        catalog.open_dataset("fashion", classes=classes)
    assert catalog.open_dataset("fashion", classes=10) is catalog.open_dataset("fashion")


def test_generated_data_are_unofficial():
    facts = {"original": True, "samples": 1281167, "epochs": 90, "target": 0.763, "penalty": 5, "bits": 32}
    facts |= {"classes": 10, "resolution": (32, 32), "network": "resnet50", "variant": "v1.5"}
    found = official({**facts, "dataset": opened().name, "passed": True, "completed": True}, IMAGES)
    assert (found.status, found.reasons) == (UNOFFICIAL, ("dataset generated-10x32, official imagenet",))


def test_images_are_made_on_the_host_without_a_gpu():
    assert opened().train.maker(torch.device("cpu")) is None


def test_generated_data_are_not_staged():
    assert catalog.files("generated") == []

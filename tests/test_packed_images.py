"""Packed sets: opened, read with their checksums, refused if damaged, and used for training by the program."""

import contextlib
import json
import os
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from launch import BENCH, mpirun, run_job, start_job, wait_until
from packed_set import SHARD, copy_of_set, packed_set

from hpcai.data import catalog, packed_images
from hpcai.data.image_shards import Entry, Index, read_index
from hpcai.data.packed_images import CLASSES, SAMPLES, is_official, open_packed
from hpcai.errors import DataError


def test_images_and_labels_are_those_of_the_shards():
    folder = packed_set()
    data = catalog.open_dataset(f"imagenet:{folder}")
    assert (data.name, data.shape, data.classes) == (f"imagefolder-4-{data.fingerprint[:8]}", (3, 224, 224), 4)
    assert (len(data.train), len(data.validation), data.target) == (24, 8, 0.763)
    assert data.fingerprint == json.loads((folder / "index.json").read_text())["fingerprint"]
    for split, name in ((data.train, "train"), (data.validation, "validation")):
        files = [h5py.File(path) for path in sorted(folder.glob(f"{name}-*.h5"))]
        images = np.concatenate([file["images"][:] for file in files])
        labels = np.concatenate([file["labels"][:] for file in files])
        everything = np.arange(len(split))
        assert np.array_equal(split.images(everything), images.transpose(0, 3, 1, 2))
        assert np.array_equal(split.labels(everything), labels) and split.labels(everything).dtype == np.int64
        some = np.array([7, 0, 7, 3, len(split) - 1])
        assert np.array_equal(split.images(some).transpose(0, 2, 3, 1), images[some])
        assert split.images(some[:0]).shape == (0, 3, 256, 256)


@pytest.mark.parametrize("samples", [4, 9, 23])
def test_fewer_samples_are_balanced_and_another_dataset(samples):
    spec = f"imagenet:{packed_set()}"
    data, whole = catalog.open_dataset(spec, samples), catalog.open_dataset(spec)
    labels = data.train.labels(np.arange(samples))
    assert len(data.train) == samples and np.ptp(np.bincount(labels, minlength=4)) <= 1
    assert len({data.fingerprint, whole.fingerprint, catalog.open_dataset(spec, samples - 1).fingerprint}) == 3
    found = data.train.images(np.arange(samples))
    stored = {image.tobytes() for image in whole.train.images(np.arange(24))}
    assert {image.tobytes() for image in found} <= stored


@pytest.mark.parametrize("samples", [1, 25])
def test_too_many_samples_are_refused(samples):
    with pytest.raises(DataError, match="allowed: 0 .all. or 2 to 24"):
        catalog.open_dataset(f"imagenet:{packed_set()}", samples)


def test_only_the_needed_files_are_listed():
    folder = packed_set()
    every = catalog.files(f"imagenet:{folder}")
    assert {path.name for path in every} == {path.name for path in folder.glob("*.*")} - {"refused.txt", ".lock"}
    needed = np.zeros(24, np.bool_)
    needed[[SHARD, 4 * SHARD]] = True
    names = [path.name for path in catalog.files(f"imagenet:{folder}", needed=needed)]
    assert names == ["index.json", "train-00001.h5", "train-00004.h5", "validation-00000.h5", "validation-00001.h5"]
    few = catalog.files(f"imagenet:{folder}", 4, np.array([True, False, False, False]))
    assert len(few) == 1 + 1 + 2


def test_a_copy_elsewhere_is_the_same_dataset(tmp_path):
    spec = f"imagenet:{packed_set()}"
    copied = catalog.open_dataset(spec, copied=copy_of_set(tmp_path / "copy"))
    assert copied.fingerprint == catalog.open_dataset(spec).fingerprint and copied.source == str(tmp_path / "copy")


def changed(name, alter):
    def wreck(folder):
        with h5py.File(folder / name, "r+") as file:
            alter(file)

    return wreck


def rewritten(alter):
    def wreck(folder):
        content = json.loads((folder / "index.json").read_text())
        alter(content)
        (folder / "index.json").write_text(json.dumps(content))

    return wreck


@pytest.mark.parametrize(
    ("wreck", "message"),
    [
        (lambda folder: (folder / "train-00003.h5").unlink(), "train-00003.h5 cannot be read: No such file"),
        (lambda folder: os.truncate(folder / "train-00003.h5", 700_000), "train-00003.h5 holds 700000 bytes; allowed"),
        (lambda folder: os.truncate(folder / "index.json", 300), "index.json cannot be read"),
        (lambda folder: (folder / "index.json").write_text("[]"), "index.json cannot be read"),
        (rewritten(lambda content: content["classes"].reverse()), "index.json is damaged"),
        (rewritten(lambda content: content.update(format=2)), "is of format 2"),
        (rewritten(lambda content: content["train"].pop()), "index.json is damaged"),
        (
            changed("train-00001.h5", lambda file: file.attrs.modify("sha256", "0" * 64)),
            "another shard than the index has",
        ),
        (
            changed("train-00001.h5", lambda file: file["labels"].write_direct(np.int32([9] * 5))),
            "is damaged, or another shard",
        ),
    ],
)
def test_a_damaged_set_is_refused_when_it_is_opened(tmp_path, wreck, message):
    folder = copy_of_set(tmp_path / "set")
    wreck(folder)
    with pytest.raises(DataError, match=message):
        catalog.open_dataset(f"imagenet:{folder}")


@pytest.mark.parametrize("path", ["nowhere", "."])
def test_a_folder_without_a_set_is_refused_before_anything_runs(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"python -P -m hpcai.data.pack SOURCE TARGET"):
        catalog.check(f"imagenet:{path}")


def test_a_flipped_bit_is_detected_when_its_sample_is_read(tmp_path):
    folder = copy_of_set(tmp_path / "set")
    with h5py.File(folder / "train-00002.h5") as file:
        place, source = file["images"].id.get_offset(), file["files"][4].decode()
    with (folder / "train-00002.h5").open("r+b") as file:
        file.seek(place + 4 * 256 * 256 * 3 + 12345)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))
    split = open_packed(folder).train
    bad = 2 * SHARD + 4
    split.images(np.array([place for place in range(24) if place != bad]))
    with pytest.raises(DataError, match=rf"train-00002.h5: sample 4 \({source}\) is damaged"):
        split.images(np.array([0, bad]))


def test_a_shard_truncated_while_it_is_read_is_refused(tmp_path):
    folder = copy_of_set(tmp_path / "set")
    split = open_packed(folder).train
    split.images(np.arange(24))
    os.truncate(folder / "train-00000.h5", 300_000)
    with pytest.raises(DataError, match="train-00000.h5 ends in sample 1"):
        split.images(np.array([1]))


def official_index():
    names = ["n01440764", *(f"n1{number:07d}" for number in range(CLASSES - 2)), "n15075141"]
    shards = {split: (Entry(f"{split}-00000.h5", samples, 0, "", 0, ""),) for split, samples in SAMPLES.items()}
    return Index(tuple(names), shards["train"], shards["validation"], 0)


def test_only_the_numbers_of_the_official_set_make_it_official():
    index, labels = official_index(), np.arange(50_000) % 1000
    assert is_official(index, labels)
    assert not is_official(index, np.minimum(labels, 998))
    assert not is_official(replace(index, classes=index.classes[:-1]), labels)
    assert not is_official(replace(index, classes=("cat", *index.classes[1:])), labels)
    short = (replace(index.train[0], samples=SAMPLES["train"] - 1),)
    assert not is_official(replace(index, train=short), labels)
    assert packed_images.SAMPLES["train"] == 1_281_167 and read_index(packed_set()).refused == 0


PROBLEM = """Packed images
for seconds
[ensemble]
imagenet:{} DATASET
{} NETWORK
32 RESOLUTION
1 GROUPS
2 DEGREE
4 BATCH
{} EPOCHS
1e-3 TARGET
"""


def problem(folder, data, network, epochs):
    (folder / "input.dat").write_text(PROBLEM.format(data, network, epochs))
    return folder


@pytest.mark.slow
@pytest.mark.skipif(mpirun() is None, reason="NO mpirun: MPI TEST NOT RUN")
def test_the_program_trains_on_a_packed_set(tmp_path):
    done = run_job([BENCH], 2, problem(tmp_path, packed_set(), "resnet18", 1))
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = tmp_path.glob("results/*/result.json")
    (test,) = json.loads(path.read_text())["tests"]
    assert test["verdict"] == "PASSED"
    data = test["raw"]["dataset"]
    name = f"imagefolder-4-{data['fingerprint'][:8]}"
    assert (data["name"], data["shape"], data["training_samples"]) == (name, [3, 224, 224], 24)
    assert "UNOFFICIAL" in done.stdout and "official imagenet" in done.stdout


def open_shards(pid):
    """Shards that a process has open; opening the set has one open at a time."""
    with contextlib.suppress(OSError):
        return sum(os.readlink(link).endswith(".h5") for link in Path(f"/proc/{pid}/fd").iterdir())
    return 0


@pytest.mark.exhaustive
@pytest.mark.skipif(mpirun() is None, reason="NO mpirun: MPI TEST NOT RUN")
def test_a_shard_truncated_in_the_training_ends_the_run_with_its_name(tmp_path):
    data = copy_of_set(tmp_path / "set")
    with start_job([BENCH], 2, problem(tmp_path, data, "resnet8", 5000)) as job:
        assert wait_until(lambda: len(job.ranks()) == 2 and min(map(open_shards, job.ranks().values())) > 2, 90)
        os.truncate(data / "train-00001.h5", 100_000)
        done = job.wait(60)
    assert done.returncode == 3 and not done.leftovers
    said = [line for line in done.stderr.splitlines() if "train-00001.h5 ends in sample" in line]
    assert said and "cannot go on" in said[0] and "Traceback" not in done.stderr
    assert [*tmp_path.glob("results/*/result.json")]

"""The packer: any number of ranks, killed and restarted jobs, damaged files, a full disk, and nothing done twice."""

import hashlib
import json
import os
import resource
import shutil
import signal
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
from image_tree import CLASSES, coloured, make_tree
from launch import ROOT, Finished, mpirun, run_job, start_job, wait_until

from hpcai.data.order import EpochOrder
from hpcai.data.pack import images
from hpcai.data.pack.source import SHUFFLE_SEED

SMALL = ("--shard-bytes", str(5 * 256 * 256 * 3))  # five images


def pack(*arguments: object, ranks: int | None = None, cwd: Path = ROOT) -> Finished:
    return run_job(["-m", "hpcai.data.pack", *map(str, arguments)], ranks, cwd)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return make_tree(tmp_path_factory.mktemp("source") / "tree")


@pytest.fixture(scope="module")
def packed(tree, tmp_path_factory):
    target = tmp_path_factory.mktemp("packed") / "deep" / "set"
    done = pack(tree, target, *SMALL)
    assert (done.returncode, done.stderr) == (0, "")
    return target


def shards(target: Path) -> dict[str, bytes]:
    """Contents of all files of a packed set, except hidden ones."""
    return {path.name: path.read_bytes() for path in sorted(target.glob("[!.]*"))}


def test_shards_hold_the_images_of_the_tree(tree, packed):
    index = json.loads((packed / "index.json").read_text())
    assert index["classes"] == sorted(CLASSES)
    assert [[entry["samples"] for entry in index[split]] for split in ("train", "validation")] == [
        [5] * 4 + [4],
        [5, 3],
    ]
    listed = [f"train/{name}/train_{i:03d}.JPEG" for name in sorted(CLASSES) for i in range(6)]
    order = [listed[place] for place in EpochOrder(24, SHUFFLE_SEED, 0)(np.arange(24))]
    found = []
    for entry in index["train"]:
        with h5py.File(packed / entry["file"]) as file:
            names = [name.decode() for name in file["files"]]
            found += names
            assert [sorted(CLASSES)[label] for label in file["labels"]] == [name.split("/")[1] for name in names]
            for image, name, crc in zip(file["images"], names, file["crc32"], strict=True):
                assert np.array_equal(image, images.read(tree / name))
                assert zlib.crc32(image) == crc
            assert (file["images"].chunks, file["images"].dtype, file["labels"].dtype) == (None, np.uint8, np.int32)
    assert found == order


def test_checksums_are_of_contents_and_the_fingerprint_of_checksums(packed):
    index = json.loads((packed / "index.json").read_text())
    sums = []
    for entry in index["train"] + index["validation"]:
        with h5py.File(packed / entry["file"]) as file:
            contents = b"1 256 3\n" + file["images"][:].tobytes() + file["labels"][:].astype("<i4").tobytes()
            sums.append(hashlib.sha256(contents).hexdigest())
            assert file.attrs["sha256"] == entry["sha256"] == sums[-1]
        assert (packed / entry["file"]).stat().st_size == entry["nbytes"]
    assert index["fingerprint"] == hashlib.sha256("".join(sums).encode()).hexdigest()


@pytest.mark.skipif(mpirun() is None, reason="NO mpirun: MPI TEST NOT RUN")
def test_any_number_of_ranks_makes_the_same_files(tree, packed, tmp_path):
    done = pack(tree, tmp_path / "set", *SMALL, ranks=3)
    assert done.returncode == 0, done.stderr
    assert shards(tmp_path / "set") == shards(packed)
    assert pack("--check", tmp_path / "set", ranks=3).returncode == 0


@pytest.mark.exhaustive
def test_a_killed_job_continues_with_the_missing_shards(tree, packed, tmp_path):
    target = tmp_path / "set"
    with start_job(["-m", "hpcai.data.pack", str(tree), str(target), *SMALL], None) as job:
        assert wait_until(lambda: [*target.glob("train-*2.h5")], 60)
        os.kill(job.process.pid, signal.SIGKILL)
        job.process.wait()
    kept = {path.name: path.stat().st_mtime_ns for path in target.glob("*.h5")}
    (target / "train-00004.h5.elsewhere-1.part").write_bytes(b"left by another killed job")
    assert not (target / "index.json").exists()
    done = pack(tree, target, *SMALL)
    assert done.returncode == 0, done.stderr
    assert shards(target) == shards(packed)
    assert {name: (target / name).stat().st_mtime_ns for name in kept} == kept


@pytest.mark.exhaustive
def test_a_damaged_shard_is_made_again(tree, packed, tmp_path):
    target = tmp_path / "set"
    pack(tree, target, *SMALL)
    os.truncate(target / "train-00002.h5", 4000)
    done = pack(tree, target, *SMALL)
    assert done.returncode == 0 and "train-00002.h5 cannot be read" in done.stderr
    assert shards(target) == shards(packed)


@pytest.mark.parametrize("index", [True, False], ids=["with the index", "without"])
def test_a_shard_with_a_flipped_bit_is_detected_and_made_again(tree, packed, tmp_path, index):
    target = tmp_path / "set"
    shutil.copytree(packed, target)
    path = target / "train-00001.h5"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    if not index:
        (target / "index.json").unlink()
    done = pack(tree, target, *SMALL)
    assert done.returncode == 0 and "train-00001.h5 is damaged: made again" in done.stderr
    assert shards(target) == shards(packed)


@pytest.mark.slow
def test_shards_of_another_source_are_refused(tree, packed, tmp_path):
    before = shards(packed)
    other = make_tree(tmp_path / "other")
    coloured(1, 99, 50, 50).save(other / "train" / CLASSES[1] / "train_000.JPEG")
    for source, options, reason in (
        (other, SMALL, "was made from other images"),
        (tree, ("--shard-bytes", "1600000"), "was made from other images|has shards that this source has not"),
    ):
        done = pack(source, packed, *options)
        assert done.returncode == 2 and any(word in done.stderr for word in reason.split("|")), done.stderr
    assert shards(packed) == before


def test_two_jobs_at_once_are_refused(tree, tmp_path):
    import fcntl

    (tmp_path / ".lock").touch()
    with (tmp_path / ".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = pack(tree, tmp_path, *SMALL)
    assert done.returncode == 2 and "is being packed by another job" in done.stderr


@pytest.mark.parametrize(
    ("wreck", "reason"),
    [
        (lambda tree: (tree / "val").rename(tree / "test"), "has no folder val or validation"),
        (lambda tree: (tree / "train").rename(tree / "x"), "has no folder train"),
        (lambda tree: (tree / "val" / CLASSES[1]).rename(tree / "val" / "zebra"), "zebra"),
        (lambda tree: (tree / "train" / "empty").mkdir(), "empty has no images"),
    ],
)
def test_invalid_trees_are_refused(tmp_path, wreck, reason):
    wreck(make_tree(tmp_path / "tree", train=1, validation=1, classes=2))
    done = pack(tmp_path / "tree", tmp_path / "set")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and reason in done.stderr
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize("arguments", [[], ["only"], ["a", "b", "--shard-bytes", "-1"], ["a", "b", "--check", "c"]])
def test_illegal_options_are_refused(arguments, tmp_path):
    assert pack(*arguments, cwd=tmp_path).returncode == 2


def limited_pack(tree: Path, target: Path, nbytes: int) -> Finished:
    """Pack in a process with a limit on the size of files: the system refuses as on a full disk."""
    program = "import resource, sys; from mpi4py import MPI;"  # MPI's own files are not limited
    program += f"resource.setrlimit(resource.RLIMIT_FSIZE, ({nbytes}, {nbytes}));"
    program += f"from hpcai.data.pack.__main__ import main; sys.exit(main({[str(tree), str(target), *SMALL]!r}))"
    return run_job(["-c", program], None)


def test_a_file_that_cannot_be_written_ends_the_job_with_its_path(tree, tmp_path):
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    done = limited_pack(tree, tmp_path / "set", 500_000)
    assert done.returncode == 3
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("hpcai:"))
    assert f"{tmp_path}/set/train-00000.h5 cannot be written" in line
    assert "Traceback" not in done.stderr and not [*(tmp_path / "set").glob("*.h5*")]


def test_space_is_checked_before_packing(tmp_path):
    from hpcai.data.pack.target import check_space
    from hpcai.errors import HpcaiError

    with pytest.raises(HpcaiError, match=r"needs 1000000000000000000 bytes more, \d+ are free"):
        check_space(tmp_path, 10**18)


@pytest.mark.slow
@pytest.mark.skipif(mpirun() is None, reason="NO mpirun: MPI TEST NOT RUN")
def test_a_rank_that_fails_ends_the_job(tree, tmp_path):
    program = (
        "import sys; from hpcai.data.pack import images, __main__; from mpi4py import MPI; import pathlib\n"
        "genuine = pathlib.Path.read_bytes\n"
        "def read_bytes(path):\n"
        "    if MPI.COMM_WORLD.rank == 1: raise OSError(5, 'Input/output error')\n"
        "    return genuine(path)\n"
        "pathlib.Path.read_bytes = read_bytes\n"
        f"sys.exit(__main__.main({[str(tree), str(tmp_path / 'set'), *SMALL]!r}))\n"
    )
    done = run_job(["-c", program], 2)
    assert done.returncode == 3 and not done.leftovers
    assert "rank 1 on" in done.stderr and "cannot be read: Input/output error" in done.stderr
    assert not (tmp_path / "set" / "index.json").exists()


def test_a_check_detects_a_flipped_bit_and_a_lost_shard(tree, tmp_path):
    target = tmp_path / "set"
    pack(tree, target, *SMALL)
    with h5py.File(target / "train-00001.h5", "r+") as file:
        file["images"][3, 100, 100, 1] ^= 4
        source = file["files"][3].decode()
    (target / "validation-00001.h5").unlink()
    done = pack("--check", target)
    assert done.returncode == 1
    assert f"train-00001.h5: sample 3 ({source}) differs from its CRC-32" in done.stdout
    assert "train-00001.h5: contents of SHA-256" in done.stdout and "validation-00001.h5 cannot be read" in done.stdout
    assert "7 shards, 3 differences" in done.stdout


@pytest.mark.slow
def test_a_check_of_a_folder_without_a_set_is_refused(tmp_path):
    done = pack("--check", tmp_path)
    assert done.returncode == 3 and "index.json cannot be read" in done.stderr

"""Descriptors and shared memory of a node: too few are refused in one line; what killed jobs left is removed."""

import mmap
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from job_folder import START, prepared
from launch import BENCH, ROOT, mpirun

from hpcai.errors import LaunchError
from hpcai.machine import node_resources

NAMESPACE = ["unshare", "-m", "bash", "-c"]
PRIVATE = shutil.which("unshare") and subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode == 0
needs_nodes = pytest.mark.skipif(not (PRIVATE and mpirun()), reason="NO mpirun OR NO MOUNTS: SMALL NODES NOT TRIED")


def lines(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if line.startswith("hpcai:")]


def job(before: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The program on two ranks, from a shell that has done something before."""
    command = f"{before} && exec {mpirun()} -np 2 {sys.executable} {BENCH}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [*NAMESPACE, command], cwd=prepared(folder), env=environment, capture_output=True, text=True, timeout=START
    )


@needs_nodes
def test_too_few_descriptors_are_refused_in_one_line(tmp_path: Path) -> None:
    done = job("ulimit -n 32", tmp_path)
    assert done.returncode == 2
    assert lines(done.stderr) == ["hpcai: a rank may open 32 files; allowed: at least 64 (ulimit -n)"]


@needs_nodes
def test_too_little_shared_memory_is_refused_in_one_line(tmp_path: Path) -> None:
    done = job("mount -t tmpfs -o size=64k tmpfs /dev/shm", tmp_path)
    assert done.returncode == 2
    said = "hpcai: /dev/shm has 65536 bytes free; allowed: at least 2200000 for 2 ranks here"
    assert lines(done.stderr) == [said] and "signal" not in done.stderr + done.stdout


def test_a_low_limit_is_raised_as_far_as_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    monkeypatch.setattr(node_resources, "remove_segments", lambda folder: None)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, before[1]))
        node_resources.prepare({})
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(before[1], node_resources.MOST_FILES), before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_only_old_segments_that_nobody_uses_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = {name: tmp_path / f"mpich_shm_{name}" for name in ("left", "mapped", "open", "young")}
    for path in (*paths.values(), tmp_path / "another"):
        path.write_bytes(bytes(4096))
    node_resources.remove_segments(tmp_path)
    assert len([*tmp_path.iterdir()]) == 5  # all are young
    monkeypatch.setattr(node_resources, "AGE", -1.0)
    with paths["mapped"].open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)
    with paths["open"].open("rb"):
        monkeypatch.setattr(node_resources, "_is_old", lambda facts: facts.st_ino != paths["young"].stat().st_ino)
        node_resources.remove_segments(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        *("mpich_shm_mapped", "mpich_shm_open", "mpich_shm_young", "another")
    }
    mapped.close()


@needs_nodes
def test_a_job_removes_what_a_killed_one_left() -> None:
    """In a folder of its own: jobs that run beside this test must not be touched."""
    before = "mount -t tmpfs tmpfs /dev/shm && echo left > /dev/shm/mpich_shm_dead_0 && sleep 0.1"
    program = f"{sys.executable} -c 'from hpcai.machine import node_resources as n; n.AGE = 0; n.prepare({{}})'"
    command = f"{before} && {program} && ls /dev/shm"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([*NAMESPACE, command], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_without_a_place_for_shared_memory_nothing_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(node_resources, "SHARED", tmp_path / "none")
    node_resources.prepare({"MPI_LOCALNRANKS": "4"})
    monkeypatch.setattr(node_resources, "SHARED", tmp_path)
    monkeypatch.setattr(node_resources, "SHARED_OF_RANK", 2**60)
    with pytest.raises(LaunchError, match="bytes free; allowed: at least"):
        node_resources.prepare({"MPI_LOCALNRANKS": "4"})

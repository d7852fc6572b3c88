"""Staging: what a node's copy holds, who may use it, and that nothing is left of it that was not to be kept."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from job_folder import END, listing, prepared
from launch import BENCH, ROOT, Finished, mpirun, run_job

from hpcai.comm.grid import Group, Seat
from hpcai.data import copies, stage
from hpcai.data.bootstrap import Multinomial
from hpcai.errors import DataError, HpcaiError
from hpcai.inputfile import Case
from hpcai.report.consistency.staging import staging

Json = dict[str, Any]

JOBS = ROOT / "tests" / "jobs"
FINGERPRINT = "0123456789abcdef" * 4
PLACE = f"hpcai-{os.getuid()}"
needs_mpirun = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: STAGING NOT TESTED")
ENVIRONMENT = {"OMP_NUM_THREADS": "1"}


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The node's place for copies."""
    place = tmp_path / "local"
    place.mkdir()
    monkeypatch.setenv("HPCAI_LOCAL", str(place))
    return place / PLACE


@pytest.fixture
def file(tmp_path: Path) -> copies.File:
    """A file of a dataset."""
    source = tmp_path / "data" / "part" / "shard"
    source.parent.mkdir(parents=True)
    source.write_bytes(bytes(range(256)) * 100)
    (found,) = copies.files_below(tmp_path / "data", [source])
    return found


def copied(place: Path) -> list[str]:
    """The files of all copies at a place."""
    return [name for name in listing(place) if "/files/" in name]


def test_copy_is_whole_until_a_byte_of_it_changes(local: Path, file: copies.File) -> None:
    copy = copies.claim(FINGERPRINT, keep=True)
    assert not copies.is_whole(copy.place, file)
    copies.copy_file(copy.place, file)
    assert copies.is_whole(copy.place, file)
    target = copy.place / "files" / "part" / "shard"
    assert target.read_bytes() == file.source.read_bytes()
    for spoiled in (file.source.read_bytes()[:-1], file.source.read_bytes()[:-1] + b"?", b""):
        target.write_bytes(spoiled)
        assert not copies.is_whole(copy.place, file)
    copy.close()
    assert target.exists()


def test_source_that_changes_or_goes_is_named(local: Path, file: copies.File) -> None:
    copy = copies.claim(FINGERPRINT, keep=False)
    with pytest.raises(DataError, match="is not"):
        copies.copy_file(copy.place, copies.File(file.source, file.name, file.nbytes + 1))
    with pytest.raises(DataError, match=r"no-shard: No such file"):
        copies.copy_file(copy.place, copies.File(file.source.with_name("no-shard"), file.name, file.nbytes))
    assert [path for path in (copy.place / "files").rglob("*") if path.is_file()] == []
    copy.close()
    assert listing(local) == ["lock"]


def test_copy_is_not_taken_for_whole_if_it_was_written_wrong(
    local: Path, file: copies.File, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = copies.claim(FINGERPRINT, keep=False)
    monkeypatch.setattr(copies, "_copied", written_wrong(copies._copied))
    with pytest.raises(DataError, match=f"the copy {copy.place}.* is not {file.source}"):
        copies.copy_file(copy.place, file)
    assert copied(local) == [f"{copy.place.name}/files/part"]
    copy.close()


def written_wrong(genuine: Callable[[Path, Path], str]) -> Callable[[Path, Path], str]:
    """A file system that loses a bit."""

    def copied(source: Path, part: Path) -> str:
        digest = genuine(source, part)
        part.write_bytes(part.read_bytes()[:-1] + b"?")
        return digest

    return copied


def test_link_is_read_from_the_source_and_gives_way_to_a_copy(local: Path, file: copies.File) -> None:
    copy = copies.claim(FINGERPRINT, keep=True)
    target = copy.place / "files" / file.name
    for act, linked in ((copies.link_file, True), (copies.copy_file, False), (copies.link_file, False)):
        act(copy.place, file)
        assert target.is_symlink() == linked
        assert target.read_bytes() == file.source.read_bytes()
        assert copies.is_whole(copy.place, file) != linked
    copies.remove(copy.place)
    assert file.source.exists()


def test_folder_belongs_to_a_job_until_it_dies(local: Path) -> None:
    program = f"import time; from hpcai.data import copies; copy = copies.claim({FINGERPRINT!r}, False)"
    program += "; print(copy.place, flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout
        place = Path(other.stdout.readline().strip())
        own = copies.claim(FINGERPRINT, keep=False)
        assert place.is_dir() and own.place.is_dir() and own.place != place
        other.kill()
        other.wait()
        assert place.is_dir()
        copies.claim(FINGERPRINT, keep=True).close()
        assert own.place.is_dir() and not place.exists()
    own.close()
    assert not own.place.exists()


def test_place_without_room_is_told_in_numbers(local: Path) -> None:
    copy = copies.claim(FINGERPRINT, keep=False)
    copies.check_space(copy.place, 1)
    with pytest.raises(HpcaiError, match=rf"needs {1 << 62} bytes in {local}, \d+ are free"):
        copies.check_space(copy.place, 1 << 62)
    copy.close()


def test_place_that_cannot_be_used_is_named(local: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local.symlink_to(tmp_path)
    with pytest.raises(HpcaiError, match="is not a folder of this user"):
        copies.claim(FINGERPRINT, keep=False)
    monkeypatch.setenv("HPCAI_LOCAL", str(tmp_path / "nowhere"))
    with pytest.raises(HpcaiError, match=r"nowhere/hpcai-\d+: No such file"):
        copies.claim(FINGERPRINT, keep=False)
    monkeypatch.delenv("HPCAI_LOCAL")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert copies.user_folder() == tmp_path / PLACE


@pytest.mark.parallel(2)
def test_needed_is_what_the_models_of_the_node_are_trained_on() -> None:
    from mpi4py import MPI

    case = Case(1, "ensemble", {"STAGE": "local", "SAMPLER": "multinomial"})
    world, member = MPI.COMM_WORLD, MPI.COMM_WORLD.rank % 2
    one = Group(2, 1, Seat(member, 0), MPI.COMM_SELF, MPI.COMM_SELF, MPI.COMM_SELF)
    both = Group(2, 1, Seat(member, 0), world, MPI.COMM_SELF, world)
    bags = [Multinomial(100, 7, member).in_bag(0, 100) for member in (0, 1)]
    together = bags[0] | bags[min(1, world.size - 1)]
    for group, needed in ((one, bags[member]), (both, together)):
        assert np.array_equal(stage._Share(case, 7, group, {"samples": 100})._needed(), needed)


def job(folder: Path, program: list[Any], settings: str, ranks: int = 2) -> Finished:
    """A small problem with these settings."""
    return run_job([*program, "--set", *settings.split()], ranks, prepared(folder), END, ENVIRONMENT)


def wrong(stage: str, changes: Json) -> list[str]:
    """The claims that a test of two nodes breaks with these measurements."""
    copy = {"bytes": 8, "reused_bytes": 0, "nodes": 2, "seconds": 0.5, "kept": stage == "keep"} | changes
    raw = {"phases": {"staging": 0.5}, "staging": copy}
    case = Case(1, "ensemble", {"STAGE": stage, "GROUPS": 1, "DEGREE": 2})
    return [claim for claim, holds in staging(case, raw).items() if not holds]


def test_measurements_that_cannot_be_are_found() -> None:
    assert wrong("local", {}) == wrong("keep", {"reused_bytes": 8}) == []
    assert wrong("none", {})[0] == "staging if, and only if, STAGE is not none"
    assert wrong("keep", {"kept": False}) == ["staging: kept if, and only if, STAGE is keep"]
    assert wrong("local", {"reused_bytes": 8}) == ["staging: only a kept copy is used again"]
    assert wrong("local", {"nodes": 4}) == ["staging: at most a node for each rank"]
    assert wrong("local", {"seconds": 0.4}) == ["staging: phase = seconds"]
    assert wrong("local", {"bytes": 7}) == ["staging: one model needs the same bytes on every node"]


@needs_mpirun
def test_data_are_copied_once_a_node_and_kept_when_asked(local: Path, tmp_path: Path) -> None:
    finished = job(tmp_path, [BENCH], "STAGE=none,local,keep,keep", ranks=3)
    assert finished.returncode == 0, finished.stderr
    (path,) = tmp_path.glob("results/*/result.json")
    none, *tests = json.loads(path.read_text())["tests"]
    assert "staging" not in none["raw"] and "staging" not in none["phases"]
    nbytes = sum(file.stat().st_size for file in (tmp_path / "pictures").iterdir())
    found = [test["raw"]["staging"] for test in tests]
    assert [copy["bytes"] for copy in found] == [nbytes, nbytes, 0]
    assert [copy["reused_bytes"] for copy in found] == [0, 0, nbytes]
    assert [copy["kept"] for copy in found] == [False, True, True]
    assert all(test["scores"]["quality"] == none["scores"]["quality"] for test in tests)
    assert f"Staging : {nbytes} bytes copied, 0 there already; nodes: 1; kept there" in finished.stdout
    assert len(copied(local)) == 4 and not any("-job-" in name for name in listing(local))
    assert run_job([BENCH, "--verify", path], None).returncode == 0


@needs_mpirun
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("full", r"staging needs \d+ bytes in .*local/hpcai-\d+, 1000 are free"),
        ("spoiled_later", r"the copy .*/files holds data of SHA-256 \w+; allowed: \w+, as .*pictures"),
    ],
)
def test_copy_that_cannot_be_had_ends_the_job_in_one_line(local: Path, tmp_path: Path, fault: str, words: str) -> None:
    finished = job(tmp_path, [JOBS / "staging_faults.py", fault], "STAGE=local")
    assert (finished.returncode, finished.leftovers) == (3, [])
    assert re.fullmatch(f"hpcai: .*{words}.*\n", finished.stderr), finished.stderr
    assert listing(local) == ["lock"]


@needs_mpirun
@pytest.mark.parametrize(("how", "left"), [("raise", False), ("kill", True)])
def test_job_that_breaks_off_leaves_at_most_what_the_next_one_removes(
    local: Path, tmp_path: Path, how: str, left: bool
) -> None:
    finished = job(tmp_path, [JOBS / "failing.py", "1", "training", "2", how], "STAGE=local")
    assert finished.returncode != 0 and finished.leftovers == []
    assert bool(copied(local)) == left
    copies.claim(FINGERPRINT, keep=False).close()
    assert listing(local) == ["lock"]

"""Tests of a run that ended while there was no time for writing all files: they are kept, and not repeated."""

import json
from pathlib import Path

import pytest
from job_folder import prepared, result, results
from launch import BENCH, ROOT, run_job
from msgspec.structs import replace
from small_run import GOLDEN

from hpcai.errors import DataError
from hpcai.record.loading import load
from hpcai.record.result import Result
from hpcai.report import ended_tests
from hpcai.report.files import RESULT
from hpcai.results.assembly import ended, without_tests
from hpcai.verification import verify

KILLED_IN_THE_THIRD = f"""
import sys
sys.path.append({str(ROOT / "tests/jobs")!r})
from failing import plant
from hpcai import recorder
from hpcai.main import main
recorder.WRITING_SECONDS = -1e9
plant(0, "counting", 3, "kill")
sys.exit(main(sys.argv[1:]))
"""
SWEEP = ("--set", "GROUPS=1", "DEGREE=1", "LEARNRATE=0.1,0.2,0.3,0.4")


@pytest.fixture
def stored() -> Result:
    return load(GOLDEN / RESULT)


def first(result: Result, count: int) -> Result:
    """A result with its first tests alone."""
    kept = {entry.index for entry in ended(result)[:count]}
    lists = {name: getattr(result, name) for name in ("tests", "tables", "kernels", "collectives")}
    found = {name: tuple(each for each in every if _test(each) in kept) for name, every in lists.items()}
    return replace(without_tests(result), **found)


def _test(entry: object) -> int:
    return int(getattr(entry, "index", 0) or getattr(entry, "test", 0))


def kept(folder: Path, stored: Result) -> Path:
    """The file with each test of a result."""
    for count in range(len(ended(stored))):
        ended_tests.append(folder, first(stored, count), first(stored, count + 1))
    return folder / ended_tests.NAME


def test_what_was_kept_is_what_the_result_would_have(tmp_path: Path, stored: Result) -> None:
    kept(tmp_path, stored)
    assert len(ended(stored)) > 1
    for count in range(len(ended(stored)) + 1):
        assert ended_tests.with_kept(tmp_path, first(stored, count)) == first(stored, len(ended(stored)))


def test_a_torn_line_is_no_test(tmp_path: Path, stored: Result) -> None:
    path = kept(tmp_path, stored)
    path.write_bytes(path.read_bytes()[:-2])
    count = len(ended(stored))
    assert ended_tests.with_kept(tmp_path, first(stored, 0)) == first(stored, count - 1)


def test_an_altered_line_is_named(tmp_path: Path, stored: Result) -> None:
    path = kept(tmp_path, stored)
    lines = path.read_text().splitlines()
    lines[1] = lines[1].replace('"verdict":"PASSED"', '"verdict":"FAILED"', 1)
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError, match=r"\.ended\.jsonl, line 2: not what its digest says"):
        ended_tests.with_kept(tmp_path, first(stored, 0))


def test_a_line_of_another_run_is_named(tmp_path: Path, stored: Result) -> None:
    kept(tmp_path, stored)
    other = replace(first(stored, 0), date="2026-01-01T00:00:00+00:00")
    with pytest.raises(DataError, match="line 1: a test of another run"):
        ended_tests.with_kept(tmp_path, other)


def test_a_symbolic_link_is_not_followed(tmp_path: Path, stored: Result) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / ended_tests.NAME).symlink_to(kept(elsewhere, stored))
    with pytest.raises(DataError, match="a symbolic link"):
        ended_tests.with_kept(tmp_path, first(stored, 0))


@pytest.mark.slow
def test_tests_that_ended_before_a_kill_are_not_repeated(tmp_path: Path) -> None:
    folder = prepared(tmp_path)
    job = run_job(["-c", KILLED_IN_THE_THIRD, *SWEEP], None, folder)
    assert job.returncode != 0 and not result(folder)["tests"]
    lines = (results(folder) / ended_tests.NAME).read_text().splitlines()
    before = [json.loads(line)["tests"] for line in lines]
    resumed = run_job([BENCH, "--resume", results(folder)], None, folder)
    assert resumed.returncode == 0, resumed.stderr
    assert [[test] for test in result(folder)["tests"][:2]] == before
    assert len(result(folder)["tests"]) == 4 and not (results(folder) / ended_tests.NAME).exists()
    assert verify.differences(results(folder) / RESULT) == []

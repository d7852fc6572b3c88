"""Tests in the background: on ranks, and in a second process; a test has to fail if one of its ranks fails."""

import os
from pathlib import Path

import pytest
from launch import ROOT, Finished, mpirun, run_job

needs_mpirun = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: MPI TESTS NOT RUN")


@pytest.mark.parallel(3)
def test_each_rank_runs_the_test(tmp_path: Path) -> None:
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    assert sorted(world.allgather(world.rank)) == list(range(world.size))
    assert len(set(world.allgather(str(tmp_path)))) == world.size
    assert world.size == int(os.environ["HPCAI_TEST_RANKS"])


@pytest.mark.parallel(2)
@pytest.mark.parametrize("word", ["a b", "[x]::y"])
def test_parameters_reach_the_ranks(word: str) -> None:
    assert word in ("a b", "[x]::y")


INNER_TESTS = """
import os, sys, time
import pytest
from mpi4py import MPI

@pytest.fixture
def costly():
    assert "HPCAI_TEST_REPORTS" in os.environ, "made outside the job"

@pytest.mark.parallel(2)
def test_passes(costly): pass

@pytest.mark.parallel(2)
def test_one_rank_fails():
    if MPI.COMM_WORLD.rank == 1:
        print("the rank's own words")
        assert 1 + 1 == 3
    MPI.COMM_WORLD.Barrier()

@pytest.mark.parallel(2)
def test_one_rank_leaves():
    if MPI.COMM_WORLD.rank == 1:
        os._exit(0)

@pytest.mark.parallel(2)
def test_skips(): pytest.skip("for a reason")

@pytest.mark.parallel(2, timeout=5)
def test_hangs():
    if MPI.COMM_WORLD.rank == 1:
        time.sleep(1000)
    MPI.COMM_WORLD.Barrier()
"""


def inner(folder: Path, *options: str) -> Finished:
    """pytest's output for the tests in the folder, launched like the project's own tests."""
    for name in ("conftest.py", "launch.py", "sampled_parameters.py", "shared_jobs.py"):
        (folder / name).write_text((ROOT / "tests" / name).read_text())
    (folder / "pytest.ini").write_text(
        "[pytest]\naddopts = -m 'not slow'\nmarkers =\n    parallel\n    alone\n    slow\n"
    )
    arguments = ["-m", "pytest", "-p", "no:cacheprovider", "-rA", *options]
    return run_job(arguments, None, folder, env={"PYTHONPATH": ""})


@pytest.mark.slow
@needs_mpirun
def test_the_verdict_of_a_test_follows_from_those_of_its_ranks(tmp_path: Path) -> None:
    (tmp_path / "test_inner.py").write_text(INNER_TESTS)
    finished = inner(tmp_path)
    assert "PASSED test_inner.py::test_passes" in finished.stdout
    assert "FAILED test_inner.py::test_one_rank_fails" in finished.stdout
    assert "--- rank 1" in finished.stdout and "assert (1 + 1) == 3" in finished.stdout
    assert "the rank's own words" in finished.stdout
    assert "FAILED test_inner.py::test_one_rank_leaves" in finished.stdout
    assert "for a reason" in finished.stdout and "1 skipped" in finished.stdout
    assert "FAILED test_inner.py::test_hangs" in finished.stdout and "no end after 5 s on 2 ranks" in finished.stdout
    assert not finished.leftovers


SHARING_TESTS = """
import os
from pathlib import Path
import pytest
from mpi4py import MPI

WORLD = MPI.COMM_WORLD

def note(name):
    with (Path(__file__).parent / f"{name}-{WORLD.rank}").open("a") as file:
        file.write(f"{os.getpid()}\\n")

@pytest.mark.parallel(2)
def test_first(): note("first")

@pytest.mark.parallel(3)
def test_other_ranks(): note("other")

@pytest.mark.alone
@pytest.mark.parallel(2)
def test_alone(): note("alone")

@pytest.mark.parallel(2)
def test_second(): note("second")

@pytest.mark.slow
@pytest.mark.parallel(2)
def test_slow(): note("slow")
"""
SHARING_TESTS_OF_ANOTHER_FILE = """
import pytest
from test_a import WORLD, note

@pytest.mark.parallel(2)
def test_third(): note("third")

@pytest.mark.parallel(2)
def test_fails():
    note("fails")
    assert WORLD.rank == 1

@pytest.mark.parallel(2)
def test_skips():
    note("skips")
    pytest.skip("for a reason")

@pytest.mark.parallel(2)
def test_last(): note("last")
"""


def write_sharing_tests(folder: Path) -> None:
    (folder / "test_a.py").write_text(SHARING_TESTS)
    (folder / "test_b.py").write_text(SHARING_TESTS_OF_ANOTHER_FILE)


def noted(folder: Path, name: str) -> list[list[str]]:
    """Process ids of the ranks that ran a test, once per run."""
    return [path.read_text().split() for path in sorted(folder.glob(f"{name}-*"))]


@pytest.mark.slow
@needs_mpirun
def test_tests_of_all_files_share_a_job_until_one_fails(tmp_path: Path) -> None:
    write_sharing_tests(tmp_path)
    finished = inner(tmp_path)
    assert "1 failed, 6 passed, 1 skipped, 1 deselected" in finished.stdout and "for a reason" in finished.stdout
    assert "FAILED test_b.py::test_fails" in finished.stdout and "assert 0 == 1" in finished.stdout
    first, fails, last = (noted(tmp_path, name) for name in ("first", "fails", "last"))
    assert first == noted(tmp_path, "second") == noted(tmp_path, "third")
    assert [len(each) for each in first] == [1, 1] and len(noted(tmp_path, "other")) == 3
    assert [len(each) for each in fails] == [2, 2]  # at the end of a job, and first in its own
    assert noted(tmp_path, "skips") == last and [len(each) for each in last] == [1, 1]
    assert not {*last[0]} & {*first[0], *fails[0]}
    assert not {*sum(noted(tmp_path, "alone"), [])} & {*first[0], *first[1], *fails[0], *fails[1], *last[0], *last[1]}


CASES = """
import pytest

@pytest.mark.parametrize("number", range(9))
def test_many_cases(number): pass

@pytest.mark.parametrize("number", range(3))
def test_few_cases(number): pass
"""


@pytest.mark.slow
@needs_mpirun
def test_of_many_cases_a_sample_is_fast(tmp_path: Path) -> None:
    (tmp_path / "test_inner.py").write_text(CASES)
    fast, slow = inner(tmp_path).stdout, inner(tmp_path, "-m", "slow and not exhaustive").stdout
    for number in range(9):
        passed = f"PASSED test_inner.py::test_many_cases[{number}]"
        assert (passed in fast, passed in slow) == (number % 3 == 0, number % 3 == 1)
    assert fast.count("PASSED test_inner.py::test_few_cases") == 3 and "test_few_cases" not in slow


STARTING_TESTS = """
import os
from pathlib import Path
import pytest
from launch import run_job

@pytest.fixture
def process(): return os.getpid()

def test_starts(process):
    (Path(__file__).parent / "process").write_text(str(process))
    run_job(["-c", "assert 'HPCAI_TEST_REPORTS' not in __import__('os').environ"], None, Path.cwd()).check_returncode()

def test_fails(): assert 1 + 1 == 3

def test_skips(): pytest.skip("for a reason")
"""
MANY_TESTS = """
import os
from pathlib import Path
import pytest

def made():
    def test(): (Path(__file__).parent / "many").write_text(str(os.getpid()))
    return test

globals().update({f"test_many_{number}": made() for number in range(1000)})
"""


@pytest.mark.slow
@needs_mpirun
@pytest.mark.parametrize("many", [True, False])
def test_files_that_start_jobs_have_a_process_of_their_own_beside_many_others(tmp_path: Path, many: bool) -> None:
    (tmp_path / "test_a.py").write_text(STARTING_TESTS)
    (tmp_path / "test_b.py").write_text(MANY_TESTS)
    finished = inner(tmp_path, *([] if many else ["-k", "not many or 999"]))
    assert f"1 failed, {1001 if many else 2} passed, 1 skipped" in finished.stdout
    assert "FAILED test_a.py::test_fails" in finished.stdout and "assert (1 + 1) == 3" in finished.stdout
    assert "for a reason" in finished.stdout
    assert ((tmp_path / "process").read_text() != (tmp_path / "many").read_text()) == many


@pytest.mark.exhaustive
@needs_mpirun
def test_tests_excluded_by_the_projects_options_run_on_ranks_on_request(tmp_path: Path) -> None:
    write_sharing_tests(tmp_path)
    finished = inner(tmp_path, "-m", "slow")
    assert finished.returncode == 0 and "1 passed" in finished.stdout
    assert [len(each) for each in noted(tmp_path, "slow")] == [1, 1]

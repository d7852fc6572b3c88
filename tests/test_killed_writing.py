"""Runs that are killed while they replace their files: the folder is the last complete one, or says that it is not."""

import json
import os
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import pytest
from launch import BENCH, ROOT, mpirun, run_job
from sampled_parameters import slow
from small_run import GOLDEN, golden, rebuilt

from hpcai.record.loading import load
from hpcai.report import checksums, files
from hpcai.verification import folder as folders
from hpcai.verification import verify

KILLED_WRITER = ROOT / "tests" / "jobs" / "killed_writer.py"
FILES = 5  # report.txt, result.csv, series.h5, result.json, SHA256SUMS


@pytest.fixture(scope="module")
def partial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stored result as it was after its first test."""
    result = golden()
    del result["tests"][1]
    path = tmp_path_factory.mktemp("partial") / "result.json"
    path.write_text(json.dumps(rebuilt(result)))
    return path


def killed(folder: Path, before: Path | str) -> list[Path]:
    """Folders whose writing was killed before the n-th call on a file, and the last one that was not killed."""
    command = [sys.executable, str(KILLED_WRITER), str(folder), str(before), str(GOLDEN / "result.json")]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [folder / str(number) for number in range(1, int(finished.stdout) + 1)]


def verdict(folder: Path) -> str:
    """Which state a folder is in: of how many tests, or that it is broken off."""
    if folders.interruption(folder):
        assert verify.differences(folder / "result.json") == [folders.interruption(folder)]
        return "broken off"
    assert verify.differences(folder / "result.json") == []
    return f"{len(json.loads((folder / 'result.json').read_text())['tests'])} tests"


def test_after_each_kill_the_folder_is_the_last_one_or_broken_off(tmp_path: Path, partial: Path) -> None:
    verdicts = [verdict(folder) for folder in killed(tmp_path, partial)]
    assert len(verdicts) >= 2 * FILES + 1  # each file is opened once and renamed once
    states = ["1 tests", "broken off", "2 tests"]
    assert [*dict.fromkeys(verdicts)] == states and sorted(verdicts, key=states.index) == verdicts
    assert verdicts.count("broken off") == FILES - 1 and verdicts.count("2 tests") == 1


@pytest.mark.slow
def test_after_each_kill_of_the_first_writing_nothing_passes(tmp_path: Path) -> None:
    *others, last = killed(tmp_path, "-")
    assert verdict(last) == "2 tests"
    for folder in others:
        if folders.interruption(folder):
            continue
        assert not (folder / "result.json").exists() and not (folder / checksums.NAME).exists()
    assert sum(bool(folders.interruption(folder)) for folder in others) == FILES


@pytest.mark.slow
def test_the_command_says_that_the_writing_was_broken_off(tmp_path: Path, partial: Path) -> None:
    folder = killed(tmp_path, partial)[-2]
    finished = run_job([BENCH, "--verify", folder], None, tmp_path)
    assert (finished.returncode, finished.stderr) == (3, "")
    (line,) = finished.stdout.splitlines()
    where = "the run ended, or still is, between the replacement of two files"
    assert line == f"{folder}: BROKEN OFF: {where}; new: report.txt, result.csv, result.json, series.h5; old: none"


def test_a_file_altered_in_a_folder_that_was_broken_off_is_named(tmp_path: Path, partial: Path) -> None:
    folder = killed(tmp_path, partial)[-3]
    assert folders.interruption(folder)
    (folder / "report.txt").write_text("forged")
    assert not folders.interruption(folder)
    altered = f"report.txt is altered: {checksums.NAME} lists another SHA-256"
    assert altered in verify.differences(folder / "result.json")


@pytest.mark.slow
def test_a_folder_that_a_run_writes_meanwhile_verifies_or_is_broken_off(tmp_path: Path, partial: Path) -> None:
    results = [load(path) for path in (partial, GOLDEN / "result.json")]
    files.write(tmp_path, results[0])
    child = os.fork()
    if child == 0:
        for number in range(20):
            files.write(tmp_path, results[number % 2])
            time.sleep(0.2)
        os._exit(0)
    found = []
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        found += verify.differences(tmp_path / "result.json")
    assert all("between the replacement of two files" in difference for difference in found)
    assert verify.differences(tmp_path / "result.json") == []


@pytest.mark.slow
def test_a_folder_that_is_replaced_during_each_reading_is_not_called_altered(
    tmp_path: Path, partial: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = [load(path) for path in (partial, GOLDEN / "result.json")]
    files.write(tmp_path, results[0])
    checked, replaced = folders.interruption, count(1)

    def replacing(folder: Path) -> str:
        """Between the reading of two files."""
        found = checked(folder)
        files.write(folder, results[next(replaced) % 2])
        (folder / "report.txt").write_text("of neither\n")
        return found

    monkeypatch.setattr(folders, "interruption", replacing)
    (said,) = verify.differences(tmp_path / "result.json")
    assert said == "a run still writes: each of 5 readings fell between the replacement of two files"


@pytest.mark.skipif(mpirun() is None, reason="NO mpirun: KILLED RUNS NOT VERIFIED")
@pytest.mark.parametrize("call", slow([10], [4, 2, 5, 10, 7, 13, 16]))
def test_a_run_that_is_killed_between_two_files_is_broken_off_or_verifies(tmp_path: Path, call: int) -> None:
    from job_folder import START, prepared

    failing = ROOT / "tests" / "jobs" / "failing.py"
    job = run_job([failing, "0", "putting", str(call), "kill"], 2, prepared(tmp_path), START)
    assert job.returncode != 0 and job.leftovers == []
    (folder,) = (tmp_path / "results").iterdir()
    finished = run_job([BENCH, "--verify", folder], None, tmp_path)
    assert finished.stderr == "" or "cannot read" in finished.stderr
    assert "Traceback" not in finished.stdout + finished.stderr
    torn = "BROKEN OFF: the run ended" in finished.stdout
    whole = "INVALID, 0 of 1 tests PASSED" in finished.stdout or "UNOFFICIAL, 1 of 1 tests PASSED" in finished.stdout
    assert (finished.returncode, torn, whole) in [(3, True, False), (0, False, True)]

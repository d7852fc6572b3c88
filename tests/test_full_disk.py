"""Results that cannot be written: the run goes on and keeps them elsewhere; exit code 3; earlier ones stay complete."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from job_folder import START, prepared
from launch import BENCH, ROOT, mpirun, run_job

from hpcai.verification import verify

pytestmark = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: FULL DISKS NOT TRIED")
REFUSED = ROOT / "tests" / "jobs" / "files_refused.py"


def words(stderr: str) -> list[str]:
    """The program's messages, without those of the launcher."""
    return [line for line in stderr.splitlines() if line.startswith("hpcai:") or "Error" in line]


@pytest.mark.exhaustive
def test_earlier_results_stay_when_the_disk_is_full(tmp_path: Path) -> None:
    job = run_job([REFUSED, "full", "--set", "LEARNRATE=0.1,0.2,0.3"], 2, prepared(tmp_path), START)
    assert job.returncode == 3 and job.leftovers == []
    (folder,) = (tmp_path / "results").iterdir()
    beside = f"hpcai: cannot write {folder}/predictions-3.h5: File too large"
    lines = [line for line in words(job.stderr) if line != beside]
    assert len(words(job.stderr)) == len(lines) + 1 == 4  # after the second test, after the third, at the end
    refused = f"hpcai: cannot write {folder}/report.txt: File too large; nor elsewhere: cannot write /"
    assert all(line.startswith(refused) for line in lines)
    assert job.stdout.count("||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)") == 3  # every row was printed
    names = sorted(path.name for path in folder.iterdir())
    predictions = [f"predictions-{test}.h5" for test in (1, 2)]
    assert names == ["SHA256SUMS", *predictions, "report.txt", "result.csv", "result.json", "series.h5"]
    assert verify.differences(folder / "result.json") == []
    result = json.loads((folder / "result.json").read_text())
    assert [test["index"] for test in result["tests"]] == [1]
    assert not result["summary"]["complete"]


@pytest.mark.slow
def test_a_removed_folder_loses_no_row(tmp_path: Path) -> None:
    other = tmp_path / "temporary"
    other.mkdir()
    changes = {"TMPDIR": str(other)}
    job = run_job([REFUSED, "removed", "--set", "LEARNRATE=0.1,0.2"], 2, prepared(tmp_path), START, changes)
    assert job.returncode == 3 and job.leftovers == []
    assert not any((tmp_path / "results").iterdir())
    (kept,) = other.glob("hpcai-result-*")
    assert f"No such file or directory; the result is in {kept}" in job.stderr
    assert verify.differences(kept / "result.json") == []
    result = json.loads((kept / "result.json").read_text())
    assert [test["index"] for test in result["tests"]] == [1, 2]
    assert (kept / "report.txt").read_text() == job.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("redirected", "why"),
    [("> /dev/full", "No space left on device"), pytest.param(">&-", "it is closed", marks=pytest.mark.exhaustive)],
)
def test_a_report_that_cannot_be_printed_is_written(tmp_path: Path, redirected: str, why: str) -> None:
    command = [str(mpirun()), "-np", "1", "bash", "-c", f"exec {subprocess.list2cmdline(program())} {redirected}"]
    finished = subprocess.run(command, cwd=prepared(tmp_path), capture_output=True, text=True, timeout=START)
    assert finished.returncode == 3
    (line, *_) = words(finished.stderr)
    assert line == f"hpcai: cannot write the report to standard output: {why}; files are written"
    (folder,) = (tmp_path / "results").iterdir()
    assert verify.differences(folder / "result.json") == []
    assert json.loads((folder / "result.json").read_text())["summary"]["complete"]


def program() -> list[str]:
    """The command of one rank."""
    return [sys.executable, str(BENCH), "--set", "DEGREE=1"]

"""Results that cannot be written: one line with the path, exit code 3, and earlier results stay complete."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from job_folder import START, prepared
from launch import BENCH, ROOT, mpirun, run_job

from hpcai.verification import verify

pytestmark = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: FULL DISKS NOT TRIED")
FULL_DISK = ROOT / "tests" / "jobs" / "full_disk.py"


def words(stderr: str) -> list[str]:
    """The program's messages, without those of the launcher."""
    return [line for line in stderr.splitlines() if line.startswith("hpcai:") or "Error" in line]


@pytest.mark.slow
def test_earlier_results_stay_when_the_disk_is_full(tmp_path: Path) -> None:
    job = run_job([FULL_DISK, "--set", "LEARNRATE=0.1,0.2,0.3"], 2, prepared(tmp_path), START)
    assert job.returncode == 3 and job.leftovers == []
    (folder,) = (tmp_path / "results").iterdir()
    (line,) = words(job.stderr)
    assert "rank 0 on" in line and f"cannot write {folder}/report.txt: File too large" in line
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["SHA256SUMS", "report.txt", "result.csv", "result.json", "series.h5"]
    assert verify.differences(folder / "result.json") == []
    result = json.loads((folder / "result.json").read_text())
    assert [test["index"] for test in result["tests"]] == [1]
    assert not result["summary"]["complete"]


@pytest.mark.slow
def test_a_report_to_a_full_device_ends_the_run(tmp_path: Path) -> None:
    command = [str(mpirun()), "-np", "1", "bash", "-c", f"exec {subprocess.list2cmdline(program())} > /dev/full"]
    finished = subprocess.run(command, cwd=prepared(tmp_path), capture_output=True, text=True, timeout=START)
    assert finished.returncode == 3
    (line,) = words(finished.stderr)
    assert "cannot write the report to standard output: No space left on device" in line


def program() -> list[str]:
    """The command of one rank."""
    return [sys.executable, str(BENCH), "--set", "DEGREE=1"]

"""Some of the kills of benchmarks/kills.py."""

from pathlib import Path

import pytest
from launch import ROOT, mpirun, run_job
from sampled_parameters import slow

KILLS = 2  # of a mode; searches are killed in test_search_resume.py


@pytest.mark.skipif(mpirun() is None, reason="NO mpirun: KILLS NOT TRIED")
@pytest.mark.parametrize("case", slow(["models", "decoder"], ["models", "pipeline", "decoder"]))
def test_kills_are_resumed_with_the_identical_result(tmp_path: Path, case: str) -> None:
    job = run_job([ROOT / "benchmarks" / "kills.py", "--kills", str(KILLS), case], None, tmp_path, timeout=580)
    assert job.returncode == 0 and f": {KILLS} of {KILLS} kills in " in job.stdout, job.stdout + job.stderr

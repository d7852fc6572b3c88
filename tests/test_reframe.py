"""The ReFrame check, run by ReFrame itself: it passes, and reports what it should refuse."""

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from launch import LAUNCHER_PREFIXES, ROOT, mpirun

pytestmark = [
    pytest.mark.skipif(find_spec("reframe") is None, reason="NO ReFrame: ITS CHECK NOT RUN"),
    pytest.mark.skipif(mpirun() is None, reason="NO mpirun: REFRAME'S CHECK NOT RUN"),
]
CHECK = ROOT / "contrib" / "reframe"
SMALL = """Small
for ReFrame
[ensemble]
fashion DATASET
256 SAMPLES
0 GROUPS
1 DEGREE
16 BATCH
1 EPOCHS
{rate} LEARNRATE
0.001 TARGET
"""


def reframe(folder: Path, **variables: str) -> tuple[int, str]:
    """Exit code and output of ReFrame; the benchmark runs below a folder."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHER_PREFIXES)}
    environment = {**inherited, "HPCAI_PYTHON": sys.executable, "TMPDIR": str(folder), **variables}
    program = shutil.which("reframe", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    options = ["-C", CHECK / "settings.py", "-c", CHECK / "hpcai_checks.py", "-r", "--prefix", folder, "--nocolor"]
    options += ["--exec-policy", "serial", "--report-file", folder / "report.json"]
    command = [str(program), *map(str, options)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=400)
    return done.returncode, done.stdout


def small_input(folder: Path, rate: str = "0.256") -> str:
    path = folder / "small.dat"
    path.write_text(SMALL.format(rate=rate))
    return str(path)


def references(folder: Path, gflops: float) -> str:
    """A site's references: at least so many GFLOP/s, 5 % less allowed."""
    path = folder / "references.json"
    path.write_text(json.dumps({"workstation:default": {"gflops": [gflops, -0.05, None, "GFLOP/s"]}}))
    return str(path)


@pytest.mark.exhaustive
def test_reframe_passes_the_check_on_each_number_of_ranks(tmp_path: Path) -> None:
    reached = references(tmp_path, 1e-6)
    variables = {"HPCAI_INPUT": small_input(tmp_path), "HPCAI_REFERENCES": reached, "HPCAI_RANKS": "1,2"}
    code, output = reframe(tmp_path, **variables)
    assert code == 0 and "Ran 2/2 test case(s) from 2 check(s) (0 failure(s)" in output, output
    assert {f"%ranks={ranks} " in output for ranks in (1, 2)} == {True}
    assert {output.count(f"P: {name}: ") for name in ("gflops", "valid_gflops", "quality")} == {2}
    assert "(r:1e-06, l:-0.05, u:None)" in output and "ceiling" not in output


@pytest.mark.exhaustive
def test_the_shipped_input_measures_the_ceiling_of_products(tmp_path: Path) -> None:
    code, output = reframe(tmp_path)
    assert code == 0 and "P: ceiling_gemm_gflops: " in output, output


@pytest.mark.exhaustive
def test_reframe_fails_a_reference_out_of_reach(tmp_path: Path) -> None:
    far = references(tmp_path, 1e12)
    code, output = reframe(tmp_path, HPCAI_INPUT=small_input(tmp_path), HPCAI_REFERENCES=far)
    assert code == 1 and "Failing phase: performance" in output and "failed to meet reference(s): gflops=" in output


@pytest.mark.exhaustive
def test_reframe_fails_a_run_whose_checks_fail(tmp_path: Path) -> None:
    code, output = reframe(tmp_path, HPCAI_INPUT=small_input(tmp_path, "1e30"))
    assert code == 1 and "Reason: sanity error: a check of the benchmark FAILED" in output, output


@pytest.mark.slow
def test_reframe_fails_an_input_that_is_refused(tmp_path: Path) -> None:
    code, output = reframe(tmp_path, HPCAI_INPUT=small_input(tmp_path, "nothing"))
    assert code == 1 and "Reason: sanity error: the report has no end" in output, output

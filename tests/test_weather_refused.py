"""Weather that is planned, refused before anything runs, or ended early."""

import json
import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from finished_run import ENVIRONMENT
from job_folder import START, listing
from launch import BENCH, ROOT, Finished, mpirun, run_job
from test_workload_weather import FILES, MADE, published

from hpcai.data.weather.layout import BOXES, file_name
from hpcai.verification import verify

needs_mpirun = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: REFUSALS NOT TESTED")
FAILING = ROOT / "tests" / "jobs" / "failing.py"
LAST = file_name(1981)  # the validation year


@pytest.fixture
def years(tmp_path: Path) -> Path:
    """A folder to run in, with published files."""
    published(tmp_path / "years")
    (tmp_path / "input.dat").write_text(FILES)
    return tmp_path


def altered(path: Path, name: str, values: Any) -> None:
    """Other contents of a data set in a file."""
    with h5py.File(path, "r+") as file:
        file[name][...] = values


def refused(folder: Path, *settings: str, ranks: int = 2, code: int = 2) -> str:
    """The one message of a job that left nothing behind and ended with that exit code."""
    before = listing(folder)
    job = run_job([BENCH, *(["--set", *settings] if settings else [])], ranks, folder, START, ENVIRONMENT)
    assert (job.returncode, job.stdout, job.leftovers) == (code, "", []), job.stderr
    assert listing(folder) == before
    assert job.stderr.count("hpcai: ") == 1 and "Traceback" not in job.stderr
    return job.stderr


@pytest.mark.slow
@needs_mpirun
def test_grids_and_classes_that_cannot_be_made_are_refused_with_each_reason(tmp_path: Path) -> None:
    (tmp_path / "input.dat").write_text(MADE)
    message = refused(tmp_path, "RESOLUTION=46,49", "CLASSES=2,3")
    assert "test 1 cannot be run: a grid of 46 x 69 points; allowed: even numbers from 48" in message
    assert "test 3 cannot be run: a grid of 49 x 73 points; allowed: even numbers from 48" in message
    assert re.search(r"test 2 cannot be run: 3 classes of generated weather; allowed: 2 \(.*\) or 4", message)


@pytest.mark.slow
@needs_mpirun
def test_a_validation_year_without_boxes_is_refused(years: Path) -> None:
    """Before its fields are read, which may take hours."""
    altered(years / "years" / LAST, "boxes", np.full((12, BOXES, 5), -1, np.int32))
    planned = run_job([BENCH, "--check", "--ranks", "2"], None, years)
    assert planned.returncode == 2
    message = refused(years, ranks=1)
    for text in (planned.stderr, message):
        assert re.search(r"no validation frame of .*years.* has boxes; allowed: frames with boxes", text)


@pytest.mark.exhaustive
@needs_mpirun
def test_published_fields_are_read_to_run_but_not_to_plan(years: Path) -> None:
    """NaN in the fields is only an error when they are read."""
    altered(years / "years" / LAST, "images", np.nan)
    before = listing(years)
    planned = run_job([BENCH, "--check", "--ranks", "2"], None, years)
    assert planned.returncode == 0, planned.stderr
    assert "fasterrcnn8" in planned.stdout and listing(years) == before
    message = refused(years, code=3)
    assert f"{LAST}: PRECT of frame 0 is not finite; allowed: finite fields" in message


@pytest.mark.slow
def test_generated_weather_is_planned_without_mpi(tmp_path: Path) -> None:
    (tmp_path / "input.dat").write_text(MADE)
    planned = run_job([BENCH, "--check", "--ranks", "2", "--set", "GROUPS=2"], None, tmp_path)
    assert planned.returncode == 0, planned.stderr
    assert "1 test, planned for 2 ranks; nothing was run" in planned.stdout and listing(tmp_path) == ["input.dat"]


def broken(job: Finished, folder: Path, cause: str) -> Any:
    """The test in which a job ended early and in good order, from its result."""
    assert (job.returncode, job.leftovers) == (3, []), job.stderr
    assert f"BROKEN OFF after 1 of 2 tests by {cause}." in job.stdout
    (path,) = folder.glob("results/*/result.json")
    assert verify.differences(path) == []
    found = json.loads(path.read_text())["broken_off"]
    assert found["cause"] == cause
    return found


@pytest.mark.exhaustive
@needs_mpirun
def test_a_signal_in_the_training_keeps_the_measurements_until_then(tmp_path: Path) -> None:
    """With a batch of one frame per rank; the test before it has ended."""
    (tmp_path / "input.dat").write_text(MADE)
    settings = ["EPOCHS=1,1000", "BATCH=1", "DEGREE=2", "SAMPLES=16"]
    # the rate is computed once per step: eight steps in the first test
    job = run_job([FAILING, "1", "training", "12", "terminate", "--set", *settings], 2, tmp_path, env=ENVIRONMENT)
    found = broken(job, tmp_path, "SIGTERM on rank 1")
    assert (found["tv"], found["raw"]["where"], found["raw"]["curve"]) == ("WR21S1V4", "training", [])
    assert 0 < found["n"] == 2 * found["raw"]["steps"] < 1000 and found["gflops"] > 0
    assert len([*tmp_path.glob("results/*/detections-*.h5")]) == 1

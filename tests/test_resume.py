"""Runs that are killed or stopped, and resumed: the same weights, curve and counts as of a run that was not."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from launch import BENCH, ROOT, Finished, Job, mpirun, run_job, start_job, wait_until

from hpcai import tensor_file

pytestmark = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: RESUMED RUNS NOT TESTED")

Json = dict[str, Any]
INPUT = """\
Two tests, of which the second is broken off
Small
0.05            CHECKPOINT
0               TELEMETRY
[kernels]
16              SHAPES
[{workload}]
{dataset}       DATASET
{samples}       SAMPLES
8               BATCH
{epochs}        EPOCHS
{settings}
"""
IMAGES = {"workload": "ensemble", "dataset": "fashion", "samples": 320, "epochs": 8}
WEATHER = {"workload": "weather", "dataset": "generated", "samples": 48, "epochs": 3}
SAME = ("curve", "ensemble", "work", "members", "models")
TIMES = {"seconds", "reached_seconds_sum", "reached_seconds_max"}
TIMES |= {"entropy", "sha256", "voted"}  # of predictions: what is drawn anew
MODES = {
    "models": (2, IMAGES, "GROUPS 2;DEGREE 1"),
    "group": (2, IMAGES, "GROUPS 1;DEGREE 2;RESOLUTION 8;WIRE int8"),
    "custom": (2, IMAGES, "GROUPS 2;DEGREE 1;KERNELS custom;OPTIMISER adam"),
    "half": (2, IMAGES, "GROUPS 1;DEGREE 2;PRECISION halffp16;SAMPLER poisson"),
    "tensor": (2, IMAGES, "GROUPS 1;DEGREE 2;PARALLEL tensor"),
    "pipeline": (2, IMAGES, "GROUPS 1;DEGREE 2;PARALLEL pipeline"),
    "auto": (2, IMAGES, "GROUPS 2;DEGREE 1;KERNELS auto"),  # two runs may choose other kernels: nothing is compared
    "weather": (2, WEATHER, "GROUPS 2;DEGREE 1;RESOLUTION 48;BATCH 4"),
}

COMPARED = ["models", *(pytest.param(mode, marks=pytest.mark.slow) for mode in MODES if mode not in {"models", "auto"})]


def prepared(folder: Path, mode: str) -> Path:
    _, form, settings = MODES[mode]
    lines = "\n".join(" ".join(reversed(setting.split())) for setting in settings.split(";"))
    text = INPUT.format(settings=lines, **form)
    if "BATCH" in settings:
        text = text.replace("8               BATCH\n", "")
    folder.mkdir(parents=True)
    (folder / "input.dat").write_text(text)
    return folder


def results(folder: Path) -> Path:
    return next(folder.glob("results/*"))


def result(folder: Path) -> Json:
    found: Json = json.loads((results(folder) / "result.json").read_text())
    return found


@cache
def whole(base: Path, mode: str) -> Json:
    """The result of a run that nothing interrupts."""
    folder = prepared(base / mode / "whole", mode)
    job = run_job([BENCH], MODES[mode][0], folder)
    assert job.returncode == 0, job.stdout + job.stderr
    return result(folder)


def broken_off(folder: Path, mode: str, end: Callable[[Job], object]) -> None:
    """A run that is ended as soon as all ranks have a checkpoint."""
    ranks, *_ = MODES[mode]
    with start_job([BENCH], ranks, prepared(folder, mode)) as job:
        files = [f"results/*/.checkpoints/test-2/*/rank-{rank}.*.safetensors" for rank in range(ranks)]
        groups = 2 if "GROUPS 2" in MODES[mode][2] else 1
        ready = [files[0]] if groups == 2 else files
        assert wait_until(lambda: all(len([*folder.glob(file)]) >= groups for file in ready), 120), job.output()
        end(job)
        job.wait(60)


def resumed(folder: Path, mode: str) -> Finished:
    return run_job([BENCH, "--resume", results(folder)], MODES[mode][0], folder)


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key not in TIMES}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def assert_same(one: Json, other: Json) -> None:
    first, second = one["tests"][0]["raw"], other["tests"][0]["raw"]
    assert {name: without_times(first[name]) for name in SAME} == {name: without_times(second[name]) for name in SAME}


def kill(job: Job) -> None:
    for pid in job.ranks().values():
        with suppress(ProcessLookupError):  # the launcher kills the others at once
            os.kill(pid, signal.SIGKILL)


def terminate(job: Job) -> None:
    job.process.send_signal(signal.SIGTERM)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("resumed")
    yield folder
    whole.cache_clear()


@pytest.mark.parametrize("mode", COMPARED)
@pytest.mark.parametrize("end", [kill, pytest.param(terminate, marks=pytest.mark.slow)])
def test_a_resumed_run_has_the_result_of_one_that_was_not_broken_off(
    base: Path, mode: str, end: Callable[[Job], object]
) -> None:
    folder = base / mode / end.__name__
    broken_off(folder, mode, end)
    before = result(folder)
    assert [entry["index"] for entry in before["tables"]] == [1] and not before["tests"]
    job = resumed(folder, mode)
    assert job.returncode == 0, job.stdout + job.stderr
    found = result(folder)
    assert_same(found, whole(base, mode))
    assert found["tables"] == before["tables"] and len(found["resumed"]) == 1
    raw = found["tests"][0]["raw"]
    assert raw["checkpoints"]["resumed"] == found["tests"][0]["p"] and raw["phases"]["interrupted"] > 0
    assert job.stdout.count("\nWR") == 1 and "End of Tests." in job.stdout
    assert "Resumed" in job.stdout
    assert not [*results(folder).glob(".checkpoints")]
    verified = run_job([BENCH, "--verify", results(folder)], None, folder)
    assert verified.returncode == 0, verified.stdout
    again = resumed(folder, mode)
    assert again.returncode == 2 and "all of its 2 tests have ended" in again.stderr


@pytest.mark.slow
def test_a_resumed_run_keeps_the_kernels_that_were_chosen(base: Path) -> None:
    folder = base / "auto" / "broken"
    broken_off(folder, "auto", kill)
    _, meta = tensor_file.read(next(results(folder).glob(".checkpoints/test-2/group-0/*")))
    job = resumed(folder, "auto")
    assert job.returncode == 0, job.stdout + job.stderr
    raw = result(folder)["tests"][0]["raw"]
    assert raw["preparation"]["kernel_choice"] == meta["kept"]["choice"] and raw["checkpoints"]["resumed"] == 2


def test_a_run_that_cannot_be_resumed_says_why(base: Path, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    broken_off(folder, "models", kill)
    job = run_job([BENCH, "--resume", results(folder)], 4, folder)
    assert job.returncode == 2 and "cannot resume: ranks 4; allowed: 2" in job.stderr
    job = run_job([BENCH, "--resume", "nowhere"], 2, folder)
    assert job.returncode == 2 and "--resume nowhere: there is no result.json" in job.stderr
    job = run_job([BENCH, "--resume", results(folder), "--set", "SEED=2"], 2, folder)
    assert job.returncode == 2 and "takes the input of the run" in job.stderr
    for path in results(folder).glob(".checkpoints/test-2/group-1/*"):
        path.write_bytes(path.read_bytes()[:-1])
    job = resumed(folder, "models")
    assert job.returncode == 0 and "checkpoint left out" in job.stderr
    assert_same(result(folder), whole(base, "models"))
    assert result(folder)["tests"][0]["raw"]["checkpoints"]["resumed"] == 1


@pytest.mark.slow
def test_a_run_is_launched_again_until_it_is_done(base: Path, tmp_path: Path) -> None:
    folder, script = prepared(tmp_path / "again", "models"), ROOT / "contrib" / "run_until_done.sh"
    found = {**os.environ, "MPIRUN": str(mpirun()), "PYTHON": sys.executable}
    with Job([str(script), "2"], folder, found) as job:
        assert wait_until(lambda: [*folder.glob("results/*/.checkpoints/test-2/group-1/*")], 120), job.output()
        kill(job)
        ended = job.wait(300)
    assert ended.returncode == 0 and "run_until_done.sh: ended with" in ended.stderr
    assert_same(result(folder), whole(base, "models"))


def test_two_runs_do_not_write_into_one_folder(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "one", "models")
    with start_job([BENCH], 2, folder) as job:
        assert wait_until(lambda: [*folder.glob("results/*/result.json")], 120), job.output()
        other = run_job([BENCH, "--resume", results(folder)], 2, folder)
        assert other.returncode == 2 and "a run writes into it" in other.stderr
    shutil.rmtree(folder)

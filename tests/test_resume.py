"""Runs that are killed or stopped, and resumed: the same weights, curve and counts as of a run that was not."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest
from job_folder import Json, result, results
from launch import BENCH, ROOT, Finished, Job, kill_ranks, mpirun, run_job, start_job, wait_until
from sampled_parameters import slow

from hpcai import tensor_file

pytestmark = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: RESUMED RUNS NOT TESTED")

Compared = Callable[[Path], Json]
INPUT = """\
Two tests, of which the second is broken off
Small
0.05            CHECKPOINT
0               TELEMETRY
[kernels]
16              SHAPES
[ensemble]
fashion         DATASET
160             SAMPLES
8               BATCH
8               RESOLUTION
8               EPOCHS
2               EVALUATE
{kernels}       KERNELS
2               GROUPS
1               DEGREE
"""
DIVIDED = """\
A language model in two parts, which is broken off
Small
0.05            CHECKPOINT
0               TELEMETRY
[language]
generated       DATASET
decoder4x128    NETWORK
{parallel}      PARALLEL
1               GROUPS
2               DEGREE
32              RESOLUTION
128             SAMPLES
8               BATCH
6               EPOCHS
2               EVALUATE
"""
GROUPS = RANKS = 2
FAILING = ROOT / "tests" / "jobs" / "failing.py"
ENSEMBLE = """\
Two models, which are stopped while they are evaluated together
Small
0               TELEMETRY
[{section}]
{keys}
2               GROUPS
1               DEGREE
8               BATCH
1               EPOCHS
"""
WORKLOADS = {
    "ensemble": "fashion DATASET\n160 SAMPLES\n8 RESOLUTION",
    "language": "generated DATASET\ndecoder2x64 NETWORK\n16 RESOLUTION\n64 SAMPLES",
    "weather": "generated DATASET\n24 SAMPLES\n48 RESOLUTION",
}


def prepared(folder: Path, kernels: str, text: str = INPUT) -> Path:
    folder.mkdir(parents=True)
    (folder / "input.dat").write_text(text.format(kernels=kernels))
    return folder


@pytest.fixture(scope="module")
def compared() -> Iterator[Compared]:
    """What two runs of the same input have in common, in a folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        yield import_module("kills").compared


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, compared: Compared) -> Json:
    """It, of a run that nothing interrupts."""
    folder = prepared(tmp_path_factory.mktemp("whole") / "run", "vendor")
    job = run_job([BENCH], RANKS, folder)
    assert job.returncode == 0, job.stdout + job.stderr
    return compared(folder)


def checkpoints(folder: Path, files: str) -> set[tuple[str, str]]:
    """Groups and ranks that have a checkpoint."""
    found = folder.glob(f"results/*/.checkpoints/{files}.*.safetensors")
    return {(path.parent.name, path.name.partition(".")[0]) for path in found}


def broken_off(folder: Path, kernels: str = "vendor", text: str = INPUT, files: str = "test-2/*/rank-0") -> None:
    """A run that is killed as soon as two groups or ranks have a checkpoint."""
    with start_job([BENCH], RANKS, prepared(folder, kernels, text)) as job:
        assert wait_until(lambda: len(checkpoints(folder, files)) >= 2, 120), job.output()
        kill_ranks(job)
        job.wait(60)


def resumed(folder: Path) -> Finished:
    return run_job([BENCH, "--resume", results(folder)], RANKS, folder)


@pytest.mark.slow
def test_a_resumed_run_has_the_result_of_one_that_was_not_broken_off(
    compared: Compared, whole: Json, tmp_path: Path
) -> None:
    folder = tmp_path / "killed"
    broken_off(folder)
    before = result(folder)
    assert [entry["index"] for entry in before["tables"]] == [1] and not before["tests"]
    job = resumed(folder)
    assert job.returncode == 0, job.stdout + job.stderr
    found = result(folder)
    assert compared(folder) == whole
    assert found["tables"] == before["tables"] and len(found["resumed"]) == 1
    raw = found["tests"][0]["raw"]
    assert raw["checkpoints"]["resumed"] == found["tests"][0]["p"] and raw["phases"]["interrupted"] > 0
    assert job.stdout.count("\nWR") == 1 and "End of Tests." in job.stdout
    assert "Resumed" in job.stdout
    assert not [*results(folder).glob(".checkpoints")]
    verified = run_job([BENCH, "--verify", results(folder)], None, folder)
    assert verified.returncode == 0, verified.stdout
    left = [results(folder) / name for name in (".checkpoints/test-2/0.1.safetensors", ".ended.jsonl", "BROKEN_OFF")]
    left[0].parent.mkdir(parents=True)
    for path in left:
        path.write_bytes(b"")
    again = resumed(folder)
    assert again.returncode == 2 and "all of its 2 tests have ended" in again.stderr
    assert not [path for path in (*left, results(folder) / ".checkpoints", results(folder) / ".lock") if path.exists()]
    (results(folder) / ".lock").mkdir()  # as in a folder that cannot be changed
    again = resumed(folder)
    assert again.returncode == 2 and "all of its 2 tests have ended" in again.stderr and "Traceback" not in again.stderr


@pytest.mark.slow
@pytest.mark.parametrize("parallel", ["tensor", pytest.param("pipeline", marks=pytest.mark.exhaustive)])
def test_a_divided_language_model_is_resumed(compared: Compared, parallel: str, tmp_path: Path) -> None:
    """Each rank has its own part of the model in its checkpoint."""
    text, killed = DIVIDED.replace("{parallel}", parallel), tmp_path / "killed"
    folder = prepared(tmp_path / "whole", "vendor", text)
    job = run_job([BENCH], RANKS, folder)
    assert job.returncode == 0, job.stdout + job.stderr
    broken_off(killed, text=text, files="test-1/group-0/rank-*")
    job = resumed(killed)
    assert job.returncode == 0, job.stdout + job.stderr
    assert compared(killed) == compared(folder)
    assert result(killed)["tests"][0]["raw"]["checkpoints"]["resumed"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("section", slow(["ensemble"], WORKLOADS))
@pytest.mark.parametrize("evaluation", [pytest.param(2, marks=pytest.mark.exhaustive), 3])
def test_an_evaluation_that_was_broken_off_is_made_anew(section: str, evaluation: int, tmp_path: Path) -> None:
    """2: all models together, after one validation each; 3: out of bag."""
    (tmp_path / "input.dat").write_text(ENSEMBLE.format(section=section, keys=WORKLOADS[section]))
    job = run_job([FAILING, "1", "evaluating", str(evaluation), "terminate"], RANKS, tmp_path)
    assert job.returncode == 3 and result(tmp_path)["broken_off"]["raw"]["where"] == "ensemble", job.stderr
    job = resumed(tmp_path)
    assert job.returncode == 0, job.stdout + job.stderr
    (test,) = result(tmp_path)["tests"]
    assert test["verdict"] == "PASSED" and test["raw"]["checkpoints"]["resumed"] == GROUPS


@pytest.mark.exhaustive
def test_a_resumed_run_keeps_the_kernels_that_were_chosen(tmp_path: Path) -> None:
    folder = tmp_path / "auto"
    broken_off(folder, "auto")
    _, meta = tensor_file.read(next(results(folder).glob(".checkpoints/test-2/group-0/*")))
    job = resumed(folder)
    assert job.returncode == 0, job.stdout + job.stderr
    raw = result(folder)["tests"][0]["raw"]
    assert raw["preparation"]["kernel_choice"] == meta["kept"]["choice"] and raw["checkpoints"]["resumed"] == 2


@pytest.mark.exhaustive
def test_a_run_that_cannot_be_resumed_says_why(compared: Compared, whole: Json, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    broken_off(folder)
    job = run_job([BENCH, "--resume", results(folder)], 4, folder)
    assert job.returncode == 2 and "cannot resume: ranks 4; allowed: 2" in job.stderr
    job = run_job([BENCH, "--resume", "nowhere"], 2, folder)
    assert job.returncode == 2 and "--resume nowhere: there is no result.json" in job.stderr
    job = run_job([BENCH, "--resume", results(folder), "--set", "SEED=2"], 2, folder)
    assert job.returncode == 2 and "takes the input of the run" in job.stderr
    for path in results(folder).glob(".checkpoints/test-2/group-1/*"):
        path.write_bytes(path.read_bytes()[:-1])
    job = resumed(folder)
    assert job.returncode == 0 and "checkpoint left out" in job.stderr
    assert compared(folder) == whole
    assert result(folder)["tests"][0]["raw"]["checkpoints"]["resumed"] == 1


@pytest.mark.exhaustive
def test_a_run_is_launched_again_until_it_is_done(compared: Compared, whole: Json, tmp_path: Path) -> None:
    folder, script = prepared(tmp_path / "again", "vendor"), ROOT / "contrib" / "run_until_done.sh"
    found = {**os.environ, "MPIRUN": str(mpirun()), "PYTHON": sys.executable}
    with Job([str(script), "2"], folder, found) as job:
        assert wait_until(lambda: [*folder.glob("results/*/.checkpoints/test-2/group-1/*")], 120), job.output()
        kill_ranks(job)
        ended = job.wait(300)
    assert ended.returncode == 0 and "run_until_done.sh: ended with" in ended.stderr
    assert compared(folder) == whole


@pytest.mark.exhaustive
def test_two_runs_do_not_write_into_one_folder(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "one", "vendor")
    with start_job([BENCH], 2, folder) as job:
        assert wait_until(lambda: [*folder.glob("results/*/result.json")], 120), job.output()
        other = run_job([BENCH, "--resume", results(folder)], 2, folder)
        assert other.returncode == 2 and "a run writes into it" in other.stderr
    shutil.rmtree(folder)

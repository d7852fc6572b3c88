"""Runs that are asked to end do so after a step, on all ranks, and report their measurements until then."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from job_folder import END, START, prepared
from launch import BENCH, ROOT, Finished, mpirun, run_job, start_job, wait_until
from sampled_parameters import slow_one_in

from hpcai.errors import HpcaiError
from hpcai.verification import verify

needs_mpirun = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: ENDINGS NOT TESTED")
FAILING = ROOT / "tests" / "jobs" / "failing.py"
GROUP = "GROUPS=1 DEGREE=2"
MODELS = "GROUPS=2 DEGREE=1"
BOTH = "GROUPS=2 DEGREE=2"


@pytest.mark.parallel(5)
def test_a_request_to_end_reaches_all_ranks_from_any_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from mpi4py import MPI

    from hpcai.comm.shutdown import Shutdown
    from hpcai.machine import signals

    world = MPI.COMM_WORLD
    for sources in ({0}, {world.size - 1}, set(range(world.size)), set()):
        monkeypatch.setattr(signals, "_caught", {})
        shutdown = Shutdown(world, 0.0)
        assert not shutdown.agreed(world)
        monkeypatch.setattr(signals, "_caught", {"SIGUSR1": 0.0} if world.rank in sources else {})
        assert shutdown.agreed(world) == bool(sources)
        assert shutdown.cause in {f"SIGUSR1 on rank {rank}" for rank in sources} | ({""} if not sources else set())
        shutdown.close()
    assert not world.Iprobe()


@pytest.mark.parallel(3)
def test_a_group_stops_after_the_same_step_however_its_ranks_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    from mpi4py import MPI

    from hpcai.comm.shutdown import INTERVAL, Shutdown, StopCheck
    from hpcai.machine import signals

    world, asked = MPI.COMM_WORLD, []
    shutdown = Shutdown(world, 0.0)
    watch = StopCheck(shutdown, world, lambda: asked.append(0))
    steps = 0
    while True:
        time.sleep(0.0005 * (world.rank + 1))
        steps += 1
        if steps == 700 and world.rank == world.size - 1:
            monkeypatch.setattr(signals, "_caught", {"SIGTERM": 0.0})
        if watch.due():
            break
    assert world.allgather(steps) == [steps] * world.size
    assert steps >= 700
    assert len(asked) < steps / 3  # a step takes far less than the interval, so most do not communicate
    assert INTERVAL <= 0.5
    shutdown.close()


def broken(folder: Path) -> Any:
    """The one result of a folder, of a run that was broken off; it must be sound."""
    (path,) = folder.glob("results/*/result.json")
    result = json.loads(path.read_text())
    assert verify.differences(path) == []
    assert not result["summary"]["complete"] and result["summary"]["valid"] == "INVALID"
    assert f"BROKEN OFF after {len(result['tests'])} of" in path.with_name("report.txt").read_text()
    return result


def ended(job: Finished) -> None:
    """The job ended by itself, in good order, with the exit code of runs that were broken off."""
    assert job.returncode == HpcaiError.exit_code == 3, job.stderr
    assert job.leftovers == []
    assert "Traceback" not in job.stderr and "End of Tests." not in job.stdout
    assert not re.search("was killed by|without a message", job.stderr)


@needs_mpirun
@pytest.mark.parametrize(
    ("ranks", "rank", "place", "settings", "where"),
    slow_one_in(5, [
        (2, 0, "set-up 1", GROUP, "preparation"),
        (2, 1, "training 2", GROUP, "training"),
        (2, 1, "loading 9", MODELS, "training"),
        (2, 1, "validating 1", MODELS, "training"),
        (2, 0, "voting 1", MODELS, "ensemble"),
        (4, 3, "waiting 2", f"{GROUP} EPOCHS=100000", "preparation"),
        (4, 1, "training 3", f"{BOTH} EPOCHS=100000", "training"),
    ]),
)  # fmt: skip
def test_a_signal_to_one_rank_ends_the_run_in_any_phase(
    tmp_path: Path, ranks: int, rank: int, place: str, settings: str, where: str
) -> None:
    arguments = [FAILING, str(rank), *place.split(), "terminate", "--set", *settings.split()]
    job = run_job(arguments, ranks, prepared(tmp_path), START, {"OMP_NUM_THREADS": "1"})
    ended(job)
    assert f"BROKEN OFF after 0 of 1 tests by SIGTERM on rank {rank}." in job.stdout
    found = broken(tmp_path)["broken_off"]
    assert (found["index"], found["cause"], found["raw"]["where"]) == (1, f"SIGTERM on rank {rank}", where)
    trained = where != "preparation"
    assert (found["n"] > 0, found["gflops"] is not None, found["raw"]["steps"] > 0) == (trained, trained, trained)


@pytest.mark.slow
@needs_mpirun
@pytest.mark.parametrize(
    ("ranks", "rank", "place", "settings", "where", "mode"),
    [
        (2, 1, "validating 1", GROUP, "training", "tensor"),
        pytest.param(2, 0, "voting 1", GROUP, "ensemble", "tensor", marks=pytest.mark.exhaustive),
        pytest.param(4, 2, "voting 1", BOTH, "ensemble", "tensor", marks=pytest.mark.exhaustive),
        pytest.param(2, 0, "loading 9", GROUP, "training", "tensor", marks=pytest.mark.exhaustive),
        pytest.param(2, 0, "validating 1", GROUP, "training", "pipeline", marks=pytest.mark.exhaustive),
        pytest.param(4, 1, "voting 1", BOTH, "ensemble", "pipeline", marks=pytest.mark.exhaustive),
        pytest.param(2, 1, "loading 9", GROUP, "training", "pipeline", marks=pytest.mark.exhaustive),
    ],
)
def test_a_signal_to_one_rank_ends_all_that_share_its_model(
    tmp_path: Path, ranks: int, rank: int, place: str, settings: str, where: str, mode: str
) -> None:
    """They exchange tensors in every batch, so all have to leave out the same ones."""
    arguments = [FAILING, str(rank), *place.split(), "terminate", "--set", f"PARALLEL={mode}", *settings.split()]
    ended(run_job(arguments, ranks, prepared(tmp_path), START, {"OMP_NUM_THREADS": "1"}))
    found = broken(tmp_path)["broken_off"]
    assert (found["cause"], found["raw"]["where"]) == (f"SIGTERM on rank {rank}", where)


@needs_mpirun
@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, *(pytest.param(each, marks=pytest.mark.exhaustive) for each in (signal.SIGINT, signal.SIGUSR1))],
    ids=lambda number: number.name,
)
def test_signal_to_mpirun_ends_the_run_and_earlier_tests_are_kept(tmp_path: Path, number: signal.Signals) -> None:
    folder = prepared(tmp_path)
    with start_job([BENCH, "--set", "EPOCHS=1,100000"], 2, folder) as job:
        kept = wait_until(lambda: any(folder.glob("results/*/result.csv")) and rows(folder) == 1, START)
        assert kept, job.output()
        job.process.send_signal(number)
        finished = job.wait(END)
    ended(finished)
    assert finished.stdout.count("\nWR11S1V4 ") == 1
    result = broken(folder)
    assert [test["index"] for test in result["tests"]] == [1]
    assert result["broken_off"]["index"] == 2


def rows(folder: Path) -> int:
    """Tests in the table of the one result so far."""
    (table,) = folder.glob("results/*/result.csv")
    return len(table.read_text().splitlines()) - 1


@pytest.mark.slow
@needs_mpirun
def test_time_limit_ends_the_run(tmp_path: Path) -> None:
    job = run_job([BENCH, "--set", "EPOCHS=100000", "TIMELIMIT=0.01"], 2, prepared(tmp_path), START)
    ended(job)
    assert "BROKEN OFF after 0 of 1 tests by TIMELIMIT of 0.01 s." in job.stdout
    assert broken(tmp_path)["broken_off"]["raw"] is None


@pytest.mark.slow
@needs_mpirun
def test_the_state_of_a_broken_off_run_cannot_be_altered(tmp_path: Path) -> None:
    arguments = [FAILING, "1", "training", "3", "terminate"]
    ended(run_job(arguments, 2, prepared(tmp_path), START))
    (path,) = tmp_path.glob("results/*/result.json")
    result = json.loads(path.read_text())
    for name, value in (("n", 10**6), ("gflops", 1e6), ("tv", "WR11H1V4")):
        path.write_text(json.dumps({**result, "broken_off": {**result["broken_off"], name: value}}))
        assert any(f"broken_off.{name}" in line for line in verify.differences(path)), name


TWICE = """
import os, signal, time
from hpcai.machine import signals
signals.record_signals()
signals.SAME = 0.2
for pause, number in ((0.0, signal.SIGUSR1), (0.3, signal.SIGTERM), (0.05, signal.SIGTERM), (0.3, signal.SIGTERM)):
    time.sleep(pause)
    os.kill(os.getpid(), number)
    print(signals.received_signal(), flush=True)
"""


def test_a_second_equal_signal_ends_the_process_and_another_does_not() -> None:
    finished = subprocess.run([sys.executable, "-c", TWICE], cwd=ROOT, capture_output=True, text=True)
    assert finished.stdout.split() == 3 * ["SIGUSR1"]
    assert finished.returncode == -signal.SIGTERM

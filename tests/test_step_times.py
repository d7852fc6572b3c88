"""Step times and busy times: their definitions, that measuring does not affect a training, and the slowest rank."""

import json
import tracemalloc
from pathlib import Path
from socket import gethostname
from time import sleep
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from launch import ROOT, mpirun, run_job
from tiny import CPU, alone, loader, random_images, training, unending

from hpcai.clock import Phases
from hpcai.data.image_dataset import ArraySplit, Pixels
from hpcai.data.philox import Integers
from hpcai.record.training import StepSeconds
from hpcai.train import step_times
from hpcai.train.loop import Training
from hpcai.train.step_times import StepTimes
from hpcai.train.validation import ValidationResult

NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="NO GPU: ITS STEPS NOT TIMED")
DEVICES = ["cpu", pytest.param("cuda", marks=NEEDS_GPU)]

TWO_GRIDS = """\
Two grids, each with one slow rank after the other
Each learning rate is a test of its own
[ensemble]
fashion     DATASET
64          SAMPLES
1 2         GROUPS
2 1         DEGREE
8           BATCH
8           RESOLUTION
1           EPOCHS
0.05 0.06   LEARNRATE
"""


class SlowImages(ArraySplit):
    """Images that take far more time than a step."""

    def images(self, indices: Integers) -> Pixels:
        sleep(0.3)
        return super().images(indices)


def times_of(moments: list[list[float]], patch: pytest.MonkeyPatch) -> StepTimes:
    """The step times of epochs that begin at the first of their moments and end their steps at the others."""
    clock = iter([moment for epoch in moments for moment in epoch])
    patch.setattr(step_times, "now", lambda: next(clock))
    times = StepTimes(CPU, max(map(len, moments)) - 1)
    for epoch in moments:
        times.begin()
        for _ in epoch[1:]:
            times.mark()
        times.close()
    return times


def test_a_step_lasts_from_the_end_of_the_previous_one_within_its_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    times = times_of([[1.0, 1.5, 3.0], [100.0, 101.0], [200.0, 203.0, 203.25]], monkeypatch)
    assert times.statistics() == StepSeconds(count=5, mean=1.25, median=1.0, p95=3.0)


@pytest.mark.parametrize(("count", "rank"), [(1, 1), (2, 2), (19, 19), (20, 19), (21, 20), (40, 38), (100, 95)])
def test_the_percentile_is_the_time_of_a_real_step(monkeypatch: pytest.MonkeyPatch, count: int, rank: int) -> None:
    lasting = np.random.default_rng(count).permutation(np.arange(1, count + 1))
    statistics = times_of([[0.0, *np.cumsum(lasting).tolist()]], monkeypatch).statistics()
    assert statistics == StepSeconds(count=count, mean=(count + 1) / 2, median=(count + 1) / 2, p95=rank)


@given(st.lists(st.lists(st.floats(0, 1e3), min_size=2, max_size=30).map(sorted), min_size=1, max_size=4))
def test_statistics_of_any_epochs(moments: list[list[float]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        statistics = times_of(moments, patch).statistics()
    seconds = sorted(float(gap) for epoch in moments for gap in np.diff(epoch))
    assert statistics.count == len(seconds)
    assert sum(gap <= statistics.p95 for gap in seconds) >= 0.95 * len(seconds)
    assert sum(gap < statistics.p95 for gap in seconds) < 0.95 * len(seconds)
    assert statistics.mean * len(seconds) == pytest.approx(sum(epoch[-1] - epoch[0] for epoch in moments))
    assert seconds[0] <= statistics.median <= statistics.p95


def test_every_step_of_a_training_is_timed_and_no_validation(monkeypatch: pytest.MonkeyPatch) -> None:
    trained, phases = training(alone(), epochs=4, evaluate_every=1), Phases(CPU)
    validate = trained.validation.run

    def slowly(*arguments: Any) -> ValidationResult:
        sleep(0.05)
        return validate(*arguments)

    monkeypatch.setattr(trained.validation, "run", slowly)
    trained.warm_up()
    trained.run(phases, unending())
    statistics, training_seconds = trained.step_times.statistics(), trained.state.progress.training_seconds
    assert phases.seconds["validation"] >= 0.2
    assert statistics.count == trained.state.progress.steps == 12
    assert statistics.mean * 12 <= training_seconds
    assert 0 < statistics.median <= statistics.p95 <= training_seconds


def test_a_slow_step_appears_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = training(alone(), epochs=3)
    step = trained._step

    def slow(x: torch.Tensor, y: torch.Tensor) -> None:
        sleep(0.05 * (trained.state.progress.step == 1))
        step(x, y)

    monkeypatch.setattr(trained, "_step", slow)
    trained.run(Phases(CPU), unending())
    intervals = np.stack(trained.step_times._epochs)
    assert intervals.shape == (3, 3) and (intervals[:, 1] >= 0.05).all()
    assert trained.step_times.statistics().p95 >= 0.05


@pytest.mark.slow
def test_slow_loading_is_part_of_a_step_and_not_of_the_busy_time() -> None:
    trained, pixels = training(alone(), epochs=2), random_images(20, 1)
    trained.loader = loader(SlowImages(pixels.pixels, pixels.classes), 8)
    trained.run(Phases(CPU), unending())
    progress = trained.state.progress
    assert trained.step_times.statistics().mean >= 0.1
    assert progress.data_wait_seconds >= 0.1
    assert 0 < step_times.busy_seconds(progress) <= progress.training_seconds - progress.data_wait_seconds


def test_an_interrupted_epoch_leaves_only_complete_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = training(alone(), epochs=2)
    monkeypatch.setattr(Training, "_rate", lambda self, step: 1 / (step - 1))
    with pytest.raises(ZeroDivisionError):
        trained.run(Phases(CPU), unending())
    monkeypatch.setattr(Training, "_rate", lambda self, step: 0.1)
    trained.run(Phases(CPU), unending())
    assert trained.state.progress.steps == 6
    assert trained.step_times.statistics().count == 5  # the sixth step was in the interrupted epoch


@pytest.mark.parametrize("device", DEVICES)
def test_marks_allocate_no_memory_and_move_forward(device: str) -> None:
    times = StepTimes(torch.device(device), 1000)
    times.begin()
    tracemalloc.start()
    for _ in range(1000):
        times.mark()
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    if device == "cuda":
        torch.cuda.synchronize()
    times.close()
    assert grown < 1000
    statistics = times.statistics()
    assert statistics.count == 1000 and 0 <= statistics.median <= statistics.p95 < 1


@pytest.mark.parallel(3)
def test_the_slowest_ranks_times_are_reported_by_all() -> None:
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    for slow in range(world.size):
        own = StepSeconds(count=world.rank, mean=9.0 - world.rank, median=2.0 + (world.rank == slow), p95=4.0)
        reported = step_times.of_slowest(own, world)
        assert reported == StepSeconds(count=slow, mean=9.0 - slow, median=3.0, p95=4.0)
        busy = step_times.spread(1.0 + (world.rank == slow), f"host{world.rank}", world)
        least, mean = (1.0 if world.size > 1 else 2.0), pytest.approx((world.size + 1) / world.size)
        assert (busy.min, busy.mean, busy.max) == (least, mean, 2.0)
        assert (busy.slowest_rank, busy.slowest_host) == (slow, f"host{slow}")
    assert step_times.spread(1.5, "same", world).slowest_rank == 0


@pytest.mark.slow
@pytest.mark.skipif(mpirun() is None, reason="NO mpirun: NO SLOW RANK PLANTED")
def test_a_slow_rank_is_named_whether_others_wait_for_it_or_not(tmp_path: Path) -> None:
    (tmp_path / "input.dat").write_text(TWO_GRIDS)
    job = run_job([ROOT / "tests" / "jobs" / "slow_rank.py"], 2, tmp_path)
    assert job.returncode == 0, job.stdout + job.stderr
    result = json.loads(next(tmp_path.glob("results/*/result.json")).read_text("utf-8"))
    assert [test["q"] for test in result["tests"]] == [2, 2, 1, 1]
    for index, test in enumerate(result["tests"]):
        busy, training_shares = test["raw"]["busy_seconds"], test["scores"]["training_shares"]
        assert (busy["slowest_rank"], busy["slowest_host"]) == (index % 2, gethostname())
        assert f"\nSlowest : rank {index % 2} on {gethostname()}, busy for {busy['max']:.3f} of " in job.stdout
        assert test["raw"]["step_seconds"]["median"] >= 0.1
        assert test["scores"]["busy_spread"] > 0.2
        waits = "exposed_communication" if test["q"] == 2 else "idle"
        assert training_shares[waits] == max(share for part, share in training_shares.items() if part != "compute")
        assert sum(training_shares.values()) == pytest.approx(1, abs=1e-12)


def test_steps_of_a_checkpoint_come_first_with_the_parts_in_which_they_were_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = times_of([[0.0, 1.0, 3.0], [10.0, 14.0]], monkeypatch)
    assert times.parts == 2
    times.restore(np.array([8.0, 9.0, 7.0]), 5)
    assert (times.seconds.tolist(), times.parts) == ([8.0, 9.0, 7.0, 1.0, 2.0, 4.0], 7)

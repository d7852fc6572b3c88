"""Read rates: exact counts of samples and bytes, the time of the loading thread alone, and their sums over ranks."""

from itertools import count
from socket import gethostname
from time import sleep
from typing import Any

import numpy as np
import pytest
from packed_set import packed_set
from search_runs import searched, verdicts
from small_run import cases_of, golden
from test_loader_crops import SIDE, Made
from test_weather_loader import Memory
from test_weather_loader import loader as loader_of_fields
from tiny import CPU, SHAPE, alone, random_images, training, unending
from tiny import loader as loader_of

from hpcai.clock import Phases
from hpcai.data import batch_reader, catalog, image_loader, load_counters
from hpcai.data.image_dataset import ArraySplit, Dataset
from hpcai.data.image_loader import Loader
from hpcai.data.order import Shard
from hpcai.data.packed_images import open_packed
from hpcai.data.prefetch import DEPTH
from hpcai.data.weather.generated import open_generated
from hpcai.data.weather.weather_loader import Loader as FieldLoader
from hpcai.record.check_declarations import CLAIMS
from hpcai.record.sample_loading import Loading
from hpcai.results.read_rates import ReadRates, read_rates
from hpcai.train.callback import TrainingCallback
from hpcai.training.totals import loading_of
from hpcai.workloads.nas import totals

BATCHES = [np.arange(8), np.arange(8), np.arange(3)]
SAMPLES, SLEEP = 19, 0.02


def counted(load: Any, boxes: Any = None) -> tuple[float, float]:
    """Samples and bytes, after loading the batches."""
    assert len([*load(BATCHES, boxes)]) == len(BATCHES)
    found = load.measured()
    assert found["load_seconds"] > 0 and found["wait_seconds"] > 0
    return found["loaded_samples"], found["loaded_bytes"]


def loader(data: Dataset, resolution: int = 0) -> Loader:
    return Loader(data.train, CPU, data.mean, data.std, resolution, batch=8, crops=data.crops)


@pytest.mark.parametrize("resolution", [0, 12, 56])
def test_bytes_of_images_in_memory_are_those_stored_whatever_the_resolution(resolution: int) -> None:
    data = catalog.open_for({"DATASET": "fashion", "SAMPLES": 100, "CLASSES": 0, "RESOLUTION": 0, "SEED": 1})
    assert counted(loader(data, resolution)) == (SAMPLES, SAMPLES * 28 * 28)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("resolution", [0, 32])
def test_bytes_of_packed_images_are_those_read_before_random_crops(
    threads: int, resolution: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_reader, "reading_threads", lambda device: threads)
    load = loader(open_packed(packed_set()), resolution)
    boxes = load.augmentation(1, 0, 0, Shard(SAMPLES, 0, 1, 8))
    assert counted(load, boxes) == (SAMPLES, SAMPLES * 3 * 256 * 256)


def test_bytes_of_generated_images_are_those_generated() -> None:
    data = catalog.open_for({"DATASET": "generated", "SAMPLES": 64, "CLASSES": 4, "RESOLUTION": 16, "SEED": 1})
    assert counted(loader(data)) == (SAMPLES, SAMPLES * 3 * 16 * 16)
    on_device = Loader(Made(), CPU, data.mean, data.std, batch=8)  # type: ignore[no-untyped-call]
    assert counted(on_device) == (SAMPLES, SAMPLES * 3 * SIDE * SIDE)


def test_bytes_of_fields_are_those_of_their_numbers() -> None:
    made, split = open_generated(60, 2, 48), Memory()  # type: ignore[no-untyped-call]
    assert counted(FieldLoader(made, made.train, CPU, batch=8)) == (SAMPLES, SAMPLES * 4 * np.prod(made.shape))
    load = loader_of_fields(split)  # type: ignore[no-untyped-call]
    batches = [np.arange(4), np.arange(3)]
    assert len([*load(batches)]) == 2 and load.measured()["loaded_bytes"] == 7 * split.fields[0].nbytes


class SlowImages(ArraySplit):
    """Sleeps before each batch."""

    def images(self, indices: Any) -> Any:
        sleep(SLEEP)
        return super().images(indices)


def test_the_rate_of_a_slow_loader_is_at_most_that_of_its_sleep() -> None:
    images = random_images(20, 1)
    load = loader_of(SlowImages(images.pixels, images.classes), 8)
    samples, nbytes = counted(load)
    found = Loading(**load.measured())
    slept = SLEEP * len(BATCHES)
    assert found.load_seconds >= slept and samples == SAMPLES
    rates = read_rates(cases_of(golden())[0], found)  # of two ranks
    assert 0 < (rates.loaded_per_second or 0) <= 2 * samples / slept
    assert 0 < (rates.loaded_bytes_per_second or 0) <= 2 * nbytes / slept


def test_only_the_time_of_the_loading_thread_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that shows how often it was read: once before a batch and once after it, whatever else happens."""
    ticks = count()
    for module in (image_loader, load_counters):
        monkeypatch.setattr(module, "now", lambda: float(next(ticks)))
    load = Loader(random_images(20, 1), CPU, (0.5, 0.5), (0.25, 0.25), batch=8, depth=0)
    for _ in load(BATCHES):
        for _ in range(100):  # the training between two batches
            next(ticks)
    assert load.measured()["load_seconds"] == len(BATCHES)
    assert next(ticks) == (2 + 100) * len(BATCHES)


def test_rates_are_those_of_all_ranks_together() -> None:
    found = Loading(loaded_samples=1000, loaded_bytes=6000, load_seconds=4.0, wait_seconds=1.0)
    for case in cases_of(golden()):
        assert case.groups * case.degree == 2
        assert read_rates(case, found) == ReadRates(500.0, 3000.0)
        for nothing in (None, Loading(load_seconds=4.0), Loading(loaded_samples=0, loaded_bytes=0, load_seconds=0.0)):
            assert read_rates(case, nothing) == ReadRates(None, None)


def test_neither_warm_up_nor_validation_counts() -> None:
    trained = training(alone(), epochs=3, evaluate_every=1)
    trained.warm_up()
    trained.run(Phases(CPU), unending())
    progress = trained.state.progress
    assert progress.loading["loaded_samples"] == progress.samples == 3 * 20
    assert progress.loading["loaded_bytes"] == 3 * 20 * np.prod(SHAPE)
    assert trained.loader.measured()["loaded_samples"] > progress.samples  # with the warm-up


class Stopping(TrainingCallback):
    """Stops after a number of steps."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def on_batch_end(self) -> None:
        self.left -= 1

    def should_stop(self) -> bool:
        return self.left <= 0


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_batches_that_a_stop_leaves_unused_are_counted(steps: int) -> None:
    trained = training(alone(), samples=100, epochs=3)
    trained.run(Phases(CPU), unending(), callback=Stopping(steps))
    progress = trained.state.progress
    assert trained.stopped and progress.samples >= 8 * steps
    assert progress.samples <= progress.loading["loaded_samples"] <= progress.samples + DEPTH * 8


@pytest.mark.parallel(2)
def test_counts_are_summed_over_the_ranks() -> None:
    from mpi4py import MPI

    from hpcai.comm.grid import split
    from hpcai.comm.rendezvous import process_group

    world = MPI.COMM_WORLD
    group = split(world, 1, world.size, "row")
    assert group is not None
    with process_group(group, gethostname(), CPU):
        trained = training(group, samples=20 * world.size, epochs=2)
        trained.run(Phases(CPU), unending())
    found = loading_of(Loading, trained.state.progress.loading, group.active)
    assert found.loaded_samples == 2 * 20 * world.size
    assert found.loaded_bytes == 2 * 20 * world.size * np.prod(SHAPE)
    own = trained.state.progress.loading
    assert found.load_seconds == pytest.approx(sum(world.allgather(own["load_seconds"])))
    assert found.wait_seconds == pytest.approx(sum(world.allgather(trained.state.progress.data_wait_seconds)))


@pytest.mark.slow
@pytest.mark.parallel(2)
@pytest.mark.parametrize("summed", [True, False])
def test_counts_of_a_search_that_are_not_summed_over_ranks_are_detected(
    summed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    if not summed:
        monkeypatch.setattr(totals, "loading_of", lambda kind, own, comm: loading_of(kind, own, MPI.COMM_SELF))
    run = searched(GROUPS=world.size, ROUNDS=2)
    if world.rank == 0:
        found, work = run.raw.loading, run.raw.work
        assert found is not None and (found.loaded_samples == work.samples) == (summed or world.size == 1)
        assert verdicts(run.entry)[CLAIMS.name] == ("PASSED" if found.loaded_samples == work.samples else "FAILED")
        assert found.loaded_bytes == (found.loaded_samples or 0) * 3 * 8 * 8

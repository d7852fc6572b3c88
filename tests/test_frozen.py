"""The second implementations agree with what trains: numbers, order, bootstraps, augmentation, recipe, samples."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packed_set import packed_set
from tiny import CPU
from weather_files import FRAMES, write_year

from hpcai.data import bootstrap, catalog, order, philox, random_crops
from hpcai.data.image_loader import Loader
from hpcai.data.source import DataSource
from hpcai.data.split_overlap import shared_samples
from hpcai.data.weather import augmentation, box_cleaning
from hpcai.data.weather import weather_loader as fields
from hpcai.data.weather.block_order import Blockwise
from hpcai.frozen import augmentation as frozen_augmentation
from hpcai.frozen import bootstrap as frozen_bootstrap
from hpcai.frozen import order as frozen_order
from hpcai.frozen import philox as frozen_philox
from hpcai.frozen import recipe as frozen_recipe
from hpcai.frozen.fields import cleaned
from hpcai.frozen.samples import SPLITS, TRAINING
from hpcai.inputfile import parse, shipped_text
from hpcai.train.content_findings import ContentFindings
from hpcai.train.recipe import Recipe
from hpcai.workloads.ensemble.data import SOURCE as IMAGES
from hpcai.workloads.weather.data import SOURCE as WEATHER

SEEDS = st.integers(0, 2**64 - 1)
SETTINGS = {"DATASET": "fashion", "SAMPLES": 0, "RESOLUTION": 0, "CLASSES": 0, "SEED": 3}


@given(SEEDS, st.integers(0, 2**63), st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=9), st.integers(1, 2**62))
def test_draws_are_the_same(seed: int, number: int, counters: list[int], bound: int) -> None:
    found = np.array(counters)
    assert philox.uniform64(seed, number, found).tolist() == frozen_philox.draws(seed, number, found)
    assert philox.below(bound, seed, number, found).tolist() == frozen_philox.below(bound, seed, number, found).tolist()


@settings(deadline=None, max_examples=25)
@given(SEEDS, st.integers(0, 99), st.integers(1, 300), st.integers(1, 4), st.integers(2, 9))
def test_orders_bootstraps_and_steps_are_the_same(seed: int, epoch: int, n: int, replicas: int, batch: int) -> None:
    every = np.arange(n)
    assert np.array_equal(order.EpochOrder(n, seed, epoch)(every), frozen_order.ordered(every, n, seed, epoch))
    for kind in ("multinomial", "poisson"):
        sampler = bootstrap.sampler(kind, n, seed, 1, 2)
        size, draw = frozen_bootstrap.bag(kind, n, seed, 1, 2)
        assert size == sampler.size
        assert np.array_equal(sampler.draw(np.arange(size)), draw(np.arange(size)))
        assert np.array_equal(frozen_bootstrap.out_of_bag(kind, n, seed, 1, 2, every), ~sampler.in_bag(0, n))
    begins = np.array([0, n // 3, n // 3, n])
    blocks = Blockwise(bootstrap.Multinomial(n, seed, 0), begins, seed, epoch, replicas)
    drawn = bootstrap.Multinomial(n, seed, 0).draw(every)
    assert np.array_equal(blocks(every), frozen_order.by_blocks(drawn, begins, seed, epoch, replicas))
    if n >= 2 * replicas:
        shard = order.Shard(n, replicas - 1, replicas, batch)
        assert shard.steps == frozen_order.steps_of_epoch(n, replicas, batch)
        last = frozen_order.positions_of_step(shard.steps - 1, n, replicas - 1, replicas, batch)
        assert np.array_equal(shard.step_positions(shard.steps - 1), last)


@given(SEEDS, st.integers(0, 99), st.lists(st.integers(0, 2**40), min_size=1, max_size=9))
@settings(deadline=None)
def test_crops_and_transforms_are_the_same(seed: int, model: int, numbers: list[int]) -> None:
    draws = np.array(numbers)
    crops = random_crops.Crops(256, 224).training(seed, model, draws)
    assert np.array_equal(crops, frozen_augmentation.crops(256, seed, model, draws))
    turns = augmentation.drawn_transforms(seed, model, draws, 96)
    assert np.array_equal(turns, frozen_augmentation.transforms(96, seed, model, draws))


@given(st.lists(st.tuples(*[st.integers(-30, 130)] * 4, st.integers(-1, 5)), max_size=20))
def test_boxes_are_cleaned_and_transformed_alike(rows: list[tuple[int, ...]]) -> None:
    raw = np.array([*rows, (-1,) * 5], np.int32)
    boxes, _ = box_cleaning.cleaned(raw[None], 60, 96)
    found = cleaned(raw[(raw != -1).any(1)], 60, 96)
    assert boxes[0][boxes[0][:, 4] >= 0].tolist() == found
    for turn in ([0, 1], [95, 0], [40, 1]):
        moved = augmentation.transformed_boxes(boxes, np.array([turn]), 60, 96)[0]
        expected = frozen_augmentation.transformed_boxes(found, *turn, 60, 96)
        assert moved[moved[:, 4] >= 0].tolist() == expected


@pytest.mark.parametrize("schedule", ["cosine", "linear", "polynomial", "constant"])
@pytest.mark.parametrize("scaling", ["linear", "sqrt", "none"])
def test_rates_are_the_same(schedule: str, scaling: str) -> None:
    problem = parse(shipped_text().encode(), [], 2, lambda spec: None, "input.dat")
    for case in (case for case in problem.cases(2) if case.trains):
        given_settings = {**case.settings, "SCHEDULE": schedule, "SCALING": scaling, "WARMUP": 0.5}
        recipe = Recipe.of(given_settings)
        for step in range(recipe.epochs * 7):
            assert recipe.rate(step, 7) == pytest.approx(frozen_recipe.rate(given_settings, step, 7), rel=1e-14)


def compared(loaders: list[Any], sizes: list[int], source: Any) -> ContentFindings:
    """Some samples of both splits, as they are loaded and as they are read anew; training ones augmented."""
    found = ContentFindings()
    for split, loader, size in zip(SPLITS, loaders, sizes, strict=True):
        indices = np.random.default_rng(1).integers(0, size, 8)
        rows = source.augmented(3, 1, np.arange(8) * 5) if split == TRAINING else None
        ((x, y, _),) = loader([indices], None if rows is None else [rows.astype(np.int32)])
        for place, sample in enumerate(source.read(split, indices, rows)):
            found.compare(sample, 0, x[place].numpy(), y[place].numpy(), f"{split} {indices[place]}")
    return found


@pytest.mark.parametrize(("dataset", "samples", "resolution"), [
    ("fashion", 0, 0), ("fashion", 600, 8), ("fashion", 0, 45), ("generated", 50, 0), ("generated", 50, 8),
    ("packed", 0, 0), ("packed", 10, 64),
])  # fmt: skip
def test_images_arrive_as_they_are_read_anew(dataset: str, samples: int, resolution: int) -> None:
    spec = f"imagenet:{packed_set()}" if dataset == "packed" else dataset
    case = {**SETTINGS, "DATASET": spec, "SAMPLES": samples, "RESOLUTION": resolution}
    data = catalog.open_for(case)
    side = 0 if dataset == "generated" else resolution
    halves = (data.train, data.validation)
    loaders = [Loader(half, CPU, data.mean, data.std, side, batch=8, crops=data.crops) for half in halves]
    source: Any = IMAGES.again(case, data)
    found = compared(loaders, [len(data.train), len(data.validation)], source)
    for split, half in zip(SPLITS, halves, strict=True):
        every = np.arange(len(half))[::-1]
        assert np.array_equal(source.labels(split, every), half.labels(every))
    assert found.samples == 16 and found.deviation[0] < 0.5, found.deviation
    assert shared_samples(data.train, data.validation) == 0


@pytest.mark.parametrize(("kind", "samples"), [("generated", 40), ("years", 0), ("years", 5), ("file", 0)])
def test_fields_arrive_as_they_are_read_anew(kind: str, samples: int, tmp_path: Path) -> None:
    for year, frames in FRAMES.items():
        write_year(tmp_path, year, frames)
    path = tmp_path / "climo_1980.h5" if kind == "file" else tmp_path
    spec = "generated" if kind == "generated" else f"extremeweather:{path}"
    case = {**SETTINGS, "DATASET": spec, "SAMPLES": samples, "RESOLUTION": 48 if kind == "generated" else 0}
    data, source = opened(WEATHER, case)
    loaders = [fields.Loader(data, half, CPU, batch=8) for half in (data.train, data.validation)]
    found = compared(loaders, [len(data.train), len(data.validation)], source)
    assert found.samples == 16 and found.deviation[0] < 0.5, found.deviation
    assert shared_samples(data.train, data.validation) == 0
    begins = getattr(data.train, "begins", None)
    assert np.array_equal(source.block_begins(), begins) if begins is not None else source.block_begins() is None


def opened(of: DataSource, case: dict[str, Any]) -> tuple[Any, Any]:
    """The data of a case, and their second reader."""
    data = of.open(case, None)
    return data, of.again(case, data)

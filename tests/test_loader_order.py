"""The order in which loaders read the draws of an epoch, and their measurements."""

from typing import Any

import numpy as np
import pytest
import torch
from test_weather_loader import Memory, loader
from tiny import loader as loader_of
from tiny import random_images
from weather_files import write_year

from hpcai.data.bootstrap import Multinomial, Whole
from hpcai.data.order import EpochOrder
from hpcai.data.weather.block_order import Blockwise
from hpcai.data.weather.generated import open_generated
from hpcai.data.weather.published import open_published
from hpcai.data.weather.weather_loader import Loader

CPU = torch.device("cpu")


def order_of(load: Any, draws: Any, epoch: int = 2, ranks: int = 1) -> list[int]:
    order = load.order(draws, 7, epoch, ranks)
    assert order.n == draws.size
    return list(order(np.arange(draws.size)))


def test_images_and_generated_fields_are_read_in_any_order() -> None:
    draws = Multinomial(60, 3, 1)
    expected = list(EpochOrder(60, 7, 2)(np.arange(60)))
    data = open_generated(60, 2, 48)
    for load in (loader_of(random_images(60, 1), 8), Loader(data, data.train, CPU, batch=8), loader(Memory())):
        assert order_of(load, draws) == expected == order_of(load, draws, ranks=3)
        assert order_of(load, draws, epoch=3) != expected


@pytest.mark.parametrize("ranks", [1, 2])
def test_published_fields_are_read_block_by_block(tmp_path: Any, ranks: int) -> None:
    for year, frames in ((1979, 9), (1980, 7), (1981, 5)):
        write_year(tmp_path, year, frames)
    data = open_published(tmp_path)
    draws = Multinomial(len(data.train), 3, 1)
    load, begins = Loader(data, data.train, CPU, batch=4), data.train.begins  # type: ignore[attr-defined]
    own = order_of(load, draws, ranks=ranks)
    assert sorted(own) == list(range(draws.size))
    assert own == list(Blockwise(draws, begins, 7, 2, ranks)(np.arange(draws.size)))


def test_reading_is_measured_for_fields() -> None:
    split = Memory()
    load = loader(split, depth=0)
    assert load.measured() == dict.fromkeys(load.measured(), 0)
    for number, _ in enumerate(load([np.arange(4), np.arange(4, 8)]), 1):
        found = load.measured()
        assert (found["bytes_read"], found["read_seconds"], found["decompress_seconds"]) == (
            7 * number, 0.25 * number, 0.5 * number,
        )  # fmt: skip
        assert found["load_seconds"] > 0
    made = open_generated(60, 2, 48)
    load = Loader(made, made.train, CPU, batch=4)
    assert len([*load([np.arange(4)])]) == 1
    found = load.measured()
    assert found["load_seconds"] > 0 == found["bytes_read"] == found["read_seconds"] == found["decompress_seconds"]


def test_one_model_reads_every_frame_once() -> None:
    data = open_generated(60, 2, 48)
    assert sorted(order_of(Loader(data, data.train, CPU, batch=8), Whole(60))) == list(range(60))

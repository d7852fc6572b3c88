"""The loader: right batches, loaded ahead, measured waiting, and no thread left behind."""

import threading
import time
import traceback

import numpy as np
import pytest
import torch
from torch.nn.functional import interpolate

from hpcai.data import image_loader as data_loader
from hpcai.data.image_dataset import ArraySplit
from hpcai.data.image_loader import Loader
from hpcai.data.order import ValidationShard, validation_indices

MEAN, STD = (0.25, 0.5, 0.125), (0.5, 0.25, 1.5)
CPU = torch.device("cpu")
DEVICES = [CPU, pytest.param(torch.device("cuda"), marks=pytest.mark.skipif("not torch.cuda.is_available()"))]
RANDOM = np.random.default_rng(1)
SPLIT = ArraySplit(RANDOM.integers(0, 256, (103, 3, 6, 10), np.uint8), np.arange(103))
BATCHES = [RANDOM.integers(0, 103, size) for size in (16, 16, 16, 16, 16, 3, 1, 16)]


class Wrapped:
    """The split above, with a function that can fail while reading."""

    def __len__(self):
        return len(SPLIT)

    def images(self, indices):
        self.read(indices)
        return SPLIT.images(indices)

    def labels(self, indices):
        return SPLIT.labels(indices)


class SlowSplit(Wrapped):
    """Takes 0.05 s for every batch."""

    def read(self, indices):
        time.sleep(0.05)


class CountingSplit(Wrapped):
    """Sets an event when it has read enough batches."""

    def __init__(self, enough):
        self.reads, self.enough, self.has_read_enough = 0, enough, threading.Event()

    def read(self, indices):
        self.reads += 1
        if self.reads == self.enough:
            self.has_read_enough.set()


class BrokenSplit(Wrapped):
    """Cannot read sample 99."""

    def __init__(self, error):
        self.error = error

    def read(self, indices):
        if 99 in indices:
            raise self.error


def loader(split=SPLIT, device=CPU, resolution=0, **options):
    return Loader(split, device, MEAN, STD, resolution, batch=16, **options)


def normalised(indices):
    mean, std = (torch.tensor(values, dtype=torch.float64).view(1, 3, 1, 1) for values in (MEAN, STD))
    return (torch.from_numpy(SPLIT.pixels[indices]).double() / 255 - mean) / std


def loading_threads():
    return [thread for thread in threading.enumerate() if thread.name == "hpcai-loader"]


@pytest.fixture(autouse=True)
def _no_thread_is_left():
    yield
    assert not loading_threads()


@pytest.mark.parametrize("device", DEVICES)
def test_batches_equal_direct_indexing(device):
    batches = [(x.cpu(), y.cpu(), x, delivered) for x, y, delivered in loader(device=device)(BATCHES)]
    for (x, y, on_device, delivered), indices in zip(batches, BATCHES, strict=True):
        assert (x.dtype, y.dtype, on_device.device.type) == (torch.float32, torch.int64, device.type)
        assert on_device.is_contiguous(memory_format=torch.channels_last)
        assert np.array_equal(y, indices) and np.array_equal(delivered, indices)
        # three roundings of values of at most 3 in magnitude
        assert (x - normalised(indices)).abs().max() <= 3 * 3 * torch.finfo(torch.float32).eps / 2


@pytest.mark.parametrize("device", DEVICES)
def test_indices_are_those_of_the_delivered_batches_not_of_the_requested_ones(monkeypatch, device):
    ahead = data_loader.Prefetcher

    def repeating(items, depth):
        return ahead((item for item in items for _ in range(2)), depth)

    monkeypatch.setattr(data_loader, "Prefetcher", repeating)
    delivered = [(y.tolist(), indices.tolist()) for _, y, indices in loader(device=device)(BATCHES[:4])]
    expected = [BATCHES[number // 2].tolist() for number in range(8)]
    assert delivered == list(zip(expected, expected, strict=True))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("resolution", [3, 7, 10, 31])
def test_resized_batches_equal_interpolate(device, resolution):
    for (x, y, _), (own, *_), indices in zip(
        loader(device=device, resolution=resolution)(BATCHES), loader(device=device)(BATCHES), BATCHES, strict=True
    ):
        expected = interpolate(own, (resolution, resolution), mode="bilinear", align_corners=False, antialias=False)
        assert torch.equal(x, expected)
        assert x.is_contiguous(memory_format=torch.channels_last)
        assert np.array_equal(y.cpu(), indices)


def test_images_of_the_right_resolution_are_not_resized():
    square = ArraySplit(SPLIT.pixels[..., :6], SPLIT.classes)
    for (x, *_), (own, *_) in zip(loader(square, resolution=6)(BATCHES), loader(square)(BATCHES), strict=True):
        assert torch.equal(x, own)


def test_the_images_are_not_changed():
    before = SPLIT.pixels.copy()
    for x, *_ in loader()(BATCHES):
        x.zero_()
    assert np.array_equal(SPLIT.pixels, before)


@pytest.mark.parametrize("ranks", range(1, 8))
def test_every_validation_sample_is_loaded_once(ranks):
    seen = [
        y
        for rank in range(ranks)
        for _, y, _ in loader()(validation_indices(ValidationShard(len(SPLIT), rank, ranks, 16)))
    ]
    assert sorted(torch.cat(seen).tolist()) == list(range(len(SPLIT)))


def test_an_empty_list_of_batches_loads_nothing():
    assert list(loader()([])) == []


def test_loading_continues_from_any_step():
    load = loader()
    rest = [y.tolist() for _, y, _ in load(BATCHES[3:])]
    assert rest == [y.tolist() for _, y, _ in load(BATCHES)][3:]


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_loading_ahead_is_limited_by_the_depth(depth):
    split = CountingSplit(enough=depth + 1)
    batches = loader(split, depth=depth)(BATCHES)
    next(batches)
    assert split.has_read_enough.wait(30)  # while this thread is busy with the first batch
    time.sleep(0.05)
    assert split.reads == depth + 1
    batches.close()


def test_waiting_for_a_slow_split_is_counted():
    load = loader(SlowSplit())
    assert load.wait_seconds == 0
    assert len(list(load(BATCHES[:4]))) == 4
    first = load.wait_seconds
    assert first > 0.1  # four times 0.05 s, all of it waiting
    list(load(BATCHES[:4]))
    assert load.wait_seconds > first + 0.1


@pytest.mark.parametrize("error", [OSError("disk gone"), SystemExit(3), KeyboardInterrupt()])
def test_errors_of_the_thread_are_raised_with_their_traceback(error):
    received = []
    with pytest.raises(type(error)) as raised:
        received.extend(y for _, y, _ in loader(BrokenSplit(error))([np.arange(4), np.array([1, 99]), np.arange(4)]))
    assert raised.value is error
    assert "read" in [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert len(received) == 1


def test_a_stop_iteration_in_the_split_is_an_error():
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(loader(BrokenSplit(StopIteration()))([np.array([99])]))


def test_errors_of_the_index_arrays_are_raised():
    def indices():
        yield np.arange(4)
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        list(loader()(indices()))


def test_too_large_a_batch_is_refused():
    with pytest.raises(ValueError, match="17 samples; allowed: at most 16"):
        list(loader()([np.arange(17)]))


@pytest.mark.parametrize("taken", [1, 2, 5])
def test_leaving_the_loop_early_ends_the_thread(taken):
    for number, _ in enumerate(loader()(BATCHES), 1):
        if number == taken:
            break
    assert not loading_threads()


def test_an_error_in_the_loop_ends_the_thread():
    def train():
        for _ in loader()(BATCHES):
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        train()
    assert not loading_threads()

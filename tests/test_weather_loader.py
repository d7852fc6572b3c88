"""The loader of climate fields: right batches, transformed correctly, loaded ahead, with measured waiting."""

import threading
import time

import numpy as np
import pytest
import torch
from weather_files import HEIGHT, MEANS, SPREADS, WIDTH, fields_of, rows_of

from hpcai.data.order import Shard
from hpcai.data.weather import augmentation
from hpcai.data.weather.read_counters import ReadCounters
from hpcai.data.weather.weather_dataset import Weather
from hpcai.data.weather.weather_loader import Loader

CPU = torch.device("cpu")
DEVICES = [CPU, pytest.param(torch.device("cuda"), marks=pytest.mark.skipif("not torch.cuda.is_available()"))]
FIELDS, BOXES = fields_of(1, 23), rows_of(1, 23)
BATCHES = [np.random.default_rng(1).integers(0, 23, size) for size in (4, 4, 4, 1, 3)]


class Memory:
    """A split in memory."""

    def __init__(self, fields=FIELDS):
        self.fields, self.meter = fields, ReadCounters()

    def __len__(self):
        return len(self.fields)

    def frames(self, indices):
        self.meter.add(7, 0.25, 0.5)
        return self.fields[indices]

    def boxes(self, indices):
        return BOXES[indices]

    @property
    def nbytes(self):
        return self.fields.nbytes


class Slow(Memory):
    def frames(self, indices):
        time.sleep(0.05)
        return super().frames(indices)


class Broken(Memory):
    def frames(self, indices):
        raise OSError("disk gone")


def weather(split, packed=False, classes=(0, 1, 2, 3)):
    mean = np.zeros(16, np.float32) if packed else MEANS.astype(np.float32)
    std = np.ones(16, np.float32) if packed else SPREADS.astype(np.float32)
    return Weather("made", "here", (16, HEIGHT, WIDTH), classes, mean, std, 0.35, "0" * 64, split, split)


def loader(split=None, device=CPU, **options):
    data = weather(split or Memory(), **options.pop("data", {}))
    return Loader(data, data.train, device, batch=4, **options)


def halves():
    """The fields in the packed format: fp16 with the channels last in memory."""
    normal = (FIELDS - MEANS[:, None, None]) / SPREADS[:, None, None]
    return np.ascontiguousarray(normal.astype(np.float16).transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


@pytest.fixture(autouse=True)
def _no_thread_is_left():
    yield
    assert not [thread for thread in threading.enumerate() if thread.name == "hpcai-loader"]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("depth", [0, 2])
def test_batches_are_the_normalised_frames_and_their_boxes(device, depth):
    for (x, y, delivered), indices in zip(loader(device=device, depth=depth)(BATCHES), BATCHES, strict=True):
        assert (x.dtype, y.dtype, x.device.type, y.device.type) == (torch.float32, torch.float32, *[device.type] * 2)
        assert x.is_contiguous(memory_format=torch.channels_last) and x.shape == (len(indices), 16, HEIGHT, WIDTH)
        expected = (FIELDS[indices].astype(np.float64) - MEANS[:, None, None]) / SPREADS[:, None, None]
        assert np.allclose(x.cpu(), expected, atol=2e-4)  # pressures have 17 bits before the mean is subtracted
        assert np.array_equal(y.cpu(), BOXES[indices]) and np.array_equal(delivered, indices)


@pytest.mark.parametrize("device", DEVICES)
def test_packed_frames_are_loaded_bit_by_bit(device):
    stored = halves()
    for (x, *_), indices in zip(loader(Memory(stored), device, data={"packed": True})(BATCHES), BATCHES, strict=True):
        assert x.is_contiguous(memory_format=torch.channels_last)
        assert np.array_equal(x.cpu(), stored[indices].astype(np.float32))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("packed", [True, False])
def test_frames_are_transformed_with_their_boxes(device, packed):
    stored = halves() if packed else FIELDS
    load = loader(Memory(stored), device, data={"packed": packed})
    shard = Shard(20, 0, 1, 4)
    batches = [shard.step_positions(step) for step in range(5)]
    drawn = list(load.augmentation(7, 1, 2, shard))
    assert np.array_equal(np.concatenate(drawn), augmentation.drawn_transforms(7, 1, 2 * 20 + np.arange(20), WIDTH))
    for (x, y, _), transform, indices in zip(load(batches, drawn), drawn, batches, strict=True):
        expected = np.empty(x.shape)
        augmentation.transformed_fields(stored[indices], transform, expected)
        if not packed:
            expected = (expected - MEANS[:, None, None]) / SPREADS[:, None, None]
        assert np.allclose(x.cpu(), expected, atol=2e-4)
        assert np.array_equal(y.cpu(), augmentation.transformed_boxes(BOXES[indices], transform, HEIGHT, WIDTH))


def test_the_frames_of_the_split_are_not_changed():
    before = FIELDS.copy()
    for x, *_ in loader()(BATCHES, [np.tile([5, 1], (len(indices), 1)) for indices in BATCHES]):
        x.zero_()
    assert np.array_equal(FIELDS, before)


def test_classes_have_the_numbers_of_the_detector():
    _, y, _ = next(iter(loader(data={"classes": (2, 1)}, depth=0)([np.arange(4)])))
    for found, rows in zip(y.numpy(), BOXES[:4], strict=True):
        wanted = [[*row[:4], {2: 0, 1: 1}[row[4]]] for row in rows.tolist() if row[4] in (1, 2)]
        assert found[: len(wanted)].tolist() == wanted and (found[len(wanted) :] == -1).all()


def test_the_time_of_loading_is_measured():
    split = Slow()
    load = loader(split)
    assert len(list(load(BATCHES))) == 5
    measured = load.measured()
    assert measured["wait_seconds"] > 0.1 and measured["load_seconds"] > 0.2
    assert (measured["bytes_read"], measured["read_seconds"], measured["decompress_seconds"]) == (35, 1.25, 2.5)
    assert load.wait_seconds == measured["wait_seconds"]


def test_errors_are_raised_and_too_large_a_batch_is_refused():
    with pytest.raises(OSError, match="disk gone"):
        list(loader(Broken())(BATCHES))
    with pytest.raises(ValueError, match="5 frames; allowed: at most 4"):
        list(loader()([np.arange(5)]))


def test_leaving_the_loop_early_ends_the_thread():
    for _ in loader()(BATCHES):
        break

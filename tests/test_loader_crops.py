"""The loader with crops: the bytes of the reference, on any device, by any number of threads; and generated images."""

import threading

import numpy as np
import pytest
import torch

from hpcai.data import batch_reader
from hpcai.data.bootstrap import Whole
from hpcai.data.image_dataset import ArraySplit
from hpcai.data.image_loader import Loader
from hpcai.data.order import EpochOrder, Shard, training_indices
from hpcai.data.random_crops import Crops
from hpcai.kernels.crop import reference

CPU = torch.device("cpu")
NO_GPU = pytest.mark.skipif("not torch.cuda.is_available()", reason="NO GPU: LOADER NOT RUN ON A DEVICE")
DEVICES = [CPU, pytest.param(torch.device("cuda"), marks=NO_GPU)]
RANDOM = np.random.default_rng(2)
SIDE = 40
CROPS = Crops(SIDE, 36)
PIXELS = RANDOM.integers(0, 256, (60, SIDE, SIDE, 3), np.uint8)
MEAN, STD = (0.25, 0.5, 0.125), (0.5, 0.25, 1.5)


class Stored:
    """Images with the channels last in memory, as in shards; records the threads that read."""

    nbytes = 0

    def __init__(self):
        self.threads = set()

    def __len__(self):
        return len(PIXELS)

    def images(self, indices):
        self.threads.add(threading.current_thread().name)
        return PIXELS[indices].transpose(0, 3, 1, 2)

    def labels(self, indices):
        return indices % 7


def loader(split=None, device=CPU, resolution=0, **options):
    return Loader(split or Stored(), device, MEAN, STD, resolution, batch=16, crops=CROPS, **options)


def bytes_of(x):
    """The bytes that were normalised."""
    mean, std = (torch.tensor(values, dtype=torch.float64).view(1, 3, 1, 1) for values in (MEAN, STD))
    return ((x.cpu().double() * std + mean) * 255).round().to(torch.uint8).numpy().transpose(0, 2, 3, 1)


def cropped(indices, boxes, side):
    out = np.empty((len(indices), side, side, 3), np.uint8)
    reference.crop(PIXELS[indices], boxes, out)
    return out


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("resolution", [0, 9, 36, 50])
def test_training_batches_have_the_crops_of_their_positions(device, resolution):
    shard, order, load = Shard(60, 1, 2, 8), EpochOrder(60, 5, 3), loader(device=device, resolution=resolution)
    batches = [*training_indices(shard, order, Whole(60), 1)]
    delivered = [*load(batches, load.augmentation(5, 2, 3, shard, 1))]
    expected = [*CROPS.of_epoch(5, 2, 3, shard, 1, shard.steps)]
    for (x, y, indices), asked, boxes in zip(delivered, batches, expected, strict=True):
        assert x.is_contiguous(memory_format=torch.channels_last) and x.shape[2:] == (resolution or 36,) * 2
        assert np.array_equal(bytes_of(x), cropped(asked, boxes, resolution or 36))
        assert np.array_equal(indices, asked) and np.array_equal(y.cpu(), asked % 7)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("resolution", [0, 12])
def test_without_boxes_the_centre_is_delivered(device, resolution):
    indices = np.arange(16)
    ((x, *_),) = loader(device=device, resolution=resolution)([indices])
    assert np.array_equal(bytes_of(x), cropped(indices, CROPS.evaluation(16), resolution or 36))
    if resolution == 0:
        assert np.array_equal(bytes_of(x), PIXELS[:16, 2:38, 2:38])


def test_several_threads_deliver_the_same_in_the_same_order(monkeypatch):
    batches = [RANDOM.integers(0, 60, size) for size in (16, 16, 5, 1, 16)]
    alone = [*loader()(batches)]
    monkeypatch.setattr(batch_reader, "reading_threads", lambda device: 3)
    split = Stored()
    together = [*loader(split)(batches)]
    assert all(torch.equal(one.x, other.x) for one, other in zip(alone, together, strict=True))
    assert all(np.array_equal(one.indices, other.indices) for one, other in zip(alone, together, strict=True))
    assert len(split.threads) > 1 and all(name.startswith("hpcai-reader") for name in split.threads)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("hpcai-")]


def test_threads_are_at_least_one_and_fewer_than_the_processors_of_a_gpu_rank(monkeypatch):
    for cpus, on_cpu, on_gpu in ((1, 1, 1), (2, 1, 1), (8, 1, 7), (32, 4, 8), (128, 8, 8)):
        monkeypatch.setattr(batch_reader, "own_cpus", lambda cpus=cpus: range(cpus))
        assert batch_reader.reading_threads(CPU) == on_cpu
        assert batch_reader.reading_threads(torch.device("cuda")) == on_gpu


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_of_a_reading_thread_is_raised(monkeypatch, threads):
    class Broken(Stored):
        def images(self, indices):
            if 33 in indices:
                raise OSError("disk gone")
            return super().images(indices)

    monkeypatch.setattr(batch_reader, "reading_threads", lambda device: threads)
    received = []
    with pytest.raises(OSError, match="disk gone"):
        received.extend(batch for batch in loader(Broken())([np.arange(16), np.arange(20, 36), np.arange(16)]))
    assert len(received) == 1
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("hpcai-")]


def test_more_or_fewer_boxes_than_batches_are_an_error():
    batches = [np.arange(8)] * 3
    for number in (2, 4):
        with pytest.raises(ValueError, match="zip"):
            list(loader()(batches, [CROPS.evaluation(8)] * number))


@pytest.mark.parametrize("crops", [None, CROPS])
def test_without_depth_there_is_no_thread(crops):
    split = Stored()
    load = Loader(split, CPU, MEAN, STD, batch=16, depth=0, crops=crops)
    batches = load([np.arange(16), np.arange(7)])
    ((x, *_), (last, *_)) = batches
    assert (len(x), len(last)) == (16, 7) and split.threads == {threading.main_thread().name}
    assert load.wait_seconds > 0
    assert torch.equal(x, next(Loader(Stored(), CPU, MEAN, STD, batch=16, crops=crops)([np.arange(16)])).x)


def test_datasets_without_crops_have_no_boxes():
    split = ArraySplit(PIXELS.transpose(0, 3, 1, 2), np.arange(60))
    assert Loader(split, CPU, MEAN, STD, batch=16).augmentation(1, 0, 0, Shard(60, 0, 1, 8)) is None


class Made(Stored):
    """Images that are generated on the device."""

    def __init__(self, makes=True):
        super().__init__()
        self.makes = makes

    def maker(self, device):
        return (
            (lambda indices: torch.from_numpy(PIXELS[indices]).permute(0, 3, 1, 2).to(device)) if self.makes else None
        )


@pytest.mark.parametrize("device", DEVICES)
def test_images_generated_on_the_device_are_not_read(device):
    made, read = Made(), Made(makes=False)
    batches = [np.arange(16), np.arange(20, 27)]
    results = [[*Loader(split, device, MEAN, STD, batch=16)(batches)] for split in (made, read)]
    for one, other in zip(*results, strict=True):
        assert torch.equal(one.x, other.x) and torch.equal(one.y, other.y)
        assert np.array_equal(one.indices, other.indices)
    assert not made.threads and read.threads

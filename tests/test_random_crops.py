"""Crops: the usual distribution, independent of the division of an epoch, and different for each draw."""

import subprocess
import sys

import numpy as np
import pytest
from launch import ROOT

from hpcai.data.bootstrap import sampler
from hpcai.data.order import EpochOrder, Shard, training_indices
from hpcai.data.random_crops import ATTEMPTS, Crops, _roots

CROPS = Crops(side=256, evaluated=224)
FROZEN = [[42, 44, 171, 144, 0], [25, 55, 84, 104, 1], [32, 26, 98, 113, 1], [33, 17, 216, 177, 0]]
FIRST_ROOT = "0x1.bb6bab045007cp-1"
SEED, MEMBER, EPOCH = 3, 1, 2


def of_epoch(n, ranks, batch, epoch=EPOCH, seed=SEED, member=MEMBER):
    """Box of each position of an epoch, in the order of the ranks."""
    found = {}
    for rank in range(ranks):
        shard = Shard(n, rank, ranks, batch)
        for step, boxes in enumerate(CROPS.of_epoch(seed, member, epoch, shard, 0, shard.steps)):
            positions = shard.step_positions(step)
            assert len(positions) == len(boxes) and boxes.dtype == np.int32
            found.update(zip(positions.tolist(), map(tuple, boxes.tolist()), strict=True))
    return found


@pytest.mark.parametrize(("ranks", "batch"), [(2, 16), (3, 32), (7, 5), (1, 9001)])
def test_the_crop_of_a_position_does_not_depend_on_the_rank(ranks, batch):
    alone = of_epoch(9001, 1, 64)
    divided = of_epoch(9001, ranks, batch)
    assert divided.items() <= alone.items() and len(divided) > 8900


def test_crops_depend_on_epoch_member_and_seed():
    one = of_epoch(500, 1, 50)
    for change in ({"epoch": 3}, {"member": 2}, {"seed": 4}):
        other = of_epoch(500, 1, 50, **change)
        assert sum(one[place] == other[place] for place in one) < 5


def test_epochs_do_not_share_crops():
    shard = Shard(10, 0, 1, 10)
    epochs = [next(CROPS.of_epoch(SEED, MEMBER, epoch, shard, 0, 1)) for epoch in range(3)]
    assert np.array_equal(np.concatenate(epochs), CROPS.training(SEED, MEMBER, np.arange(30)))


def test_a_sample_that_is_drawn_twice_gets_two_crops():
    n = 3000
    shard, order, draws = Shard(n, 0, 1, 100), EpochOrder(n, SEED, EPOCH), sampler("multinomial", n, SEED, MEMBER, 2)
    indices = np.concatenate([*training_indices(shard, order, draws)])
    boxes = np.concatenate([*CROPS.of_epoch(SEED, MEMBER, EPOCH, shard, 0, shard.steps)])
    sample = np.bincount(indices).argmax()
    twice = boxes[indices == sample]
    assert len(twice) > 3 and len(np.unique(twice, axis=0)) == len(twice)


def test_crops_begin_at_any_step_and_end_at_any():
    shard = Shard(1000, 1, 3, 7)
    steps = [*CROPS.of_epoch(SEED, MEMBER, EPOCH, shard, 0, shard.steps)]
    for start, stop in ((0, 5), (17, 18), (40, shard.steps)):
        part = [*CROPS.of_epoch(SEED, MEMBER, EPOCH, shard, start, stop)]
        assert len(part) == stop - start
        assert all(np.array_equal(*pair) for pair in zip(part, steps[start:stop], strict=True))


def test_the_distribution_is_that_of_random_resized_crops():
    n = 100_000
    boxes = CROPS.training(SEED, MEMBER, np.arange(n)).astype(float)
    start, size = boxes[:, :2], boxes[:, 2:4]
    assert (start >= 0).all() and (start + size <= 256).all() and (size >= 1).all()
    area, ratio = size.prod(1) / 256**2, size[:, 1] / size[:, 0]
    assert 0.08 - 0.003 < area.min() < 0.083 and area.max() > 0.99
    assert ratio.min() > 0.75 - 0.01 and ratio.max() < 4 / 3 + 0.01
    expected = rejection_sampled(n)
    assert abs(area.mean() - expected[0]) < 0.005 and abs(np.log(ratio).mean()) < 0.003
    assert abs(np.log(ratio).std() - expected[1]) < 0.003
    assert abs(boxes[:, 4].mean() - 0.5) < 0.01
    room = 256 - size
    assert np.abs((start[room > 20] + 0.5) / (room[room > 20] + 1) - 0.5).mean() == pytest.approx(0.25, abs=0.005)


def rejection_sampled(n):
    """Mean area and deviation of the logarithmic ratio, drawn with floats as in common libraries."""
    random = np.random.default_rng(1)
    area, ratio = random.uniform(0.08, 1, n), np.exp(random.uniform(np.log(3 / 4), np.log(4 / 3), n))
    fits = (np.rint(256 * np.sqrt(area * ratio)) <= 256) & (np.rint(256 * np.sqrt(area / ratio)) <= 256)
    return area[fits].mean(), np.log(ratio[fits]).std()


def test_crops_are_frozen():
    """Results of all versions and machines rest on the same images."""
    assert CROPS.training(1, 0, np.arange(4)).tolist() == FROZEN
    assert ATTEMPTS == 10 and float(_roots()[0]).hex() == FIRST_ROOT


@pytest.mark.parametrize(("side", "cropped", "expected"), [(256, 224, [16, 16, 224, 224, 0]), (9, 6, [1, 1, 6, 6, 0])])
def test_evaluation_crops_the_centre(side, cropped, expected):
    boxes = Crops(side, cropped).evaluation(3)
    assert boxes.tolist() == [expected] * 3 and boxes.dtype == np.int32


def test_images_of_the_right_size_are_not_cropped():
    assert CROPS.training(SEED, MEMBER, np.arange(0)).shape == (0, 5)
    assert CROPS.evaluation(0).shape == (0, 5)


def test_the_table_of_ratios_is_created_at_its_first_use():
    program = "from hpcai.data import random_crops; print(random_crops._roots.cache_info().currsize)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"

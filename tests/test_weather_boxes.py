"""Boxes of climate fields: faulty boxes of files are corrected and counted, and boxes follow transformed fields."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcai.data.order import Shard
from hpcai.data.weather import augmentation
from hpcai.data.weather.box_cleaning import Faults, cleaned, targets
from hpcai.data.weather.layout import BOXES, CHANNELS

HEIGHT, WIDTH = 40, 60
WHOLE = [4, 10, 12, 30, 2]
UNUSED = [-1] * 5


def frame(*rows, first=0):
    """Rows of one frame in the format of a file."""
    raw = np.full((1, BOXES, 5), -1, np.int32)
    raw[0, first : first + len(rows)] = np.reshape(rows, (-1, 5))
    return raw


def kept(raw):
    boxes, faults = cleaned(raw, HEIGHT, WIDTH)
    assert boxes.dtype == np.int32 and boxes.shape == (len(raw), BOXES, 5)
    used = (boxes != -1).any(2)
    assert not (~used[:, :-1] & used[:, 1:]).any()
    return boxes[0][used[0]].tolist(), faults


@pytest.mark.parametrize(
    ("row", "expected", "faults"),
    [
        (WHOLE, [WHOLE], {}),
        ([0, 0, HEIGHT, WIDTH, 0], [[0, 0, HEIGHT, WIDTH, 0]], {}),
        ([4, 50, 12, 8, 1], [[4, 50, 12, 60, 1]], {"wrapped": 1}),
        ([4, 50, 12, 68, 1], [[4, 50, 12, 60, 1]], {"wrapped": 1}),
        ([4, -10, 12, 8, 1], [[4, 50, 12, 60, 1]], {"wrapped": 1}),
        ([4, 50, 12, 62, 1], [[4, 50, 12, 60, 1]], {"wrapped": 1}),
        ([4, 59, 12, 9, 1], [[4, 0, 12, 9, 1]], {"wrapped": 1}),
        ([4, -5, 12, 5, 1], [[4, 55, 12, 60, 1]], {"wrapped": 1}),
        ([4, -5, 12, 6, 1], [[4, 0, 12, 6, 1]], {"wrapped": 1}),
        ([4, 70, 12, 80, 1], [[4, 10, 12, 20, 1]], {}),
        ([-3, 10, 12, 30, 0], [[0, 10, 12, 30, 0]], {"outside": 1}),
        ([30, 10, 44, 30, 0], [[30, 10, 40, 30, 0]], {"outside": 1}),
        ([41, 10, 44, 30, 0], [], {"outside": 1}),
        ([4, 10, 4, 30, 0], [], {"degenerate": 1}),
        ([4, 10, 12, 10, 0], [], {"degenerate": 1}),
        ([12, 10, 4, 30, 0], [], {"degenerate": 1}),
        ([4, 30, 12, 20, 0], [], {"degenerate": 1}),
        ([4, 0, 12, 61, 0], [], {"degenerate": 1}),
        ([0, 0, 0, 0, 0], [], {"degenerate": 1}),
        ([-1, -1, -1, -1, 3], [], {"degenerate": 1}),
        ([4, 10, 12, 30, 4], [], {"unknown": 1}),
        ([4, 10, 12, 30, -1], [], {"unknown": 1}),
    ],
)
def test_a_faulty_box_is_corrected_and_counted(row, expected, faults):
    assert kept(frame(row)) == (expected, Faults(boxes=1, **faults))


def test_unused_rows_may_be_anywhere():
    other = [20, 3, 30, 9, 3]
    assert kept(frame(WHOLE, UNUSED, other, UNUSED, WHOLE)) == ([WHOLE, other, WHOLE], Faults(boxes=3, misplaced=1))
    assert kept(frame(WHOLE, first=14)) == ([WHOLE], Faults(boxes=1, misplaced=1))
    assert kept(frame()) == ([], Faults())


def test_a_file_with_too_many_rows_is_truncated():
    raw = np.concatenate([frame(*[WHOLE] * 9), frame(*[WHOLE] * 8)], 1)
    assert kept(raw) == ([WHOLE] * 15, Faults(boxes=17, crowded=2, misplaced=1))


def test_counts_of_files_add_up_and_are_printed():
    total = Faults(3, wrapped=1) + Faults(4, wrapped=1, unknown=2)
    assert total == Faults(7, wrapped=2, unknown=2) and str(total) == "7 boxes, 2 wrapped, 2 unknown"


def painted(boxes):
    """Pixels of each class that boxes cover, also if boxes are divided."""
    area = np.zeros((len(boxes), 4, HEIGHT, WIDTH), bool)
    for number, rows in enumerate(boxes):
        for top, left, bottom, right, label in rows[rows[:, 4] >= 0]:
            area[number, label, top:bottom, left:right] = True
    return area


random_rows = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 59), st.integers(1, 10), st.integers(8, 29), st.integers(0, 3)),
    max_size=4,
)


@given(random_rows, st.integers(0, WIDTH - 1), st.integers(0, 1))
def test_boxes_follow_the_fields(rows, columns, mirrored):
    raw = frame(*[[top, left, top + height, left + width, label] for top, left, height, width, label in rows])
    boxes, _ = cleaned(raw, HEIGHT, WIDTH)
    transformed = augmentation.transformed_boxes(boxes, np.array([[columns, mirrored]]), HEIGHT, WIDTH)
    before, after = painted(boxes), painted(transformed)
    expected = np.roll(before[:, :, ::-1] if mirrored else before, columns, 3)
    assert not (after & ~expected).any()
    lost = (expected & ~after).any((0, 1, 2))
    assert not lost[15:-15].any(), "only the narrower part at the edge may be missing"
    assert np.count_nonzero(transformed[..., 4] >= 0) == len(rows)


def test_transformed_fields_change_the_sign_of_meridional_winds_alone():
    fields = np.random.default_rng(1).normal(size=(3, 16, 8, 10)).astype(np.float32)
    out = np.empty_like(fields)
    augmentation.transformed_fields(fields, np.array([[0, 0], [3, 0], [9, 1]]), out)
    assert np.array_equal(out[0], fields[0]) and np.array_equal(out[1], np.roll(fields[1], 3, 2))
    expected = np.roll(fields[2], 9, 2)[:, ::-1].copy()
    for name in ("V850", "VBOT"):
        expected[CHANNELS.index(name)] *= -1
    assert np.array_equal(out[2], expected)


@pytest.mark.parametrize("mirrored", [0, 1])
def test_a_mirrored_vortex_rotates_in_the_sense_of_its_hemisphere(mirrored):
    y, x = np.mgrid[-4:5, -4:5].astype(np.float32)  # rows to the north: anticlockwise, north of the equator
    fields = np.zeros((1, 16, 18, 9), np.float32)
    fields[0, CHANNELS.index("U850"), 9:], fields[0, CHANNELS.index("V850"), 9:] = -y, x
    out = np.empty_like(fields)
    augmentation.transformed_fields(fields, np.array([[0, mirrored]]), out)
    u, v = (out[0, CHANNELS.index(name)] for name in ("U850", "V850"))
    vorticity = np.gradient(v, axis=1) - np.gradient(u, axis=0)
    assert vorticity[4 if mirrored else 13, 4] == (-2 if mirrored else 2)


def test_transforms_depend_on_the_position_and_not_on_the_ranks():
    whole = np.concatenate([*augmentation.of_epoch(7, 1, 3, Shard(48, 0, 1, 8), WIDTH)])
    for rank in range(3):
        part = np.concatenate([*augmentation.of_epoch(7, 1, 3, Shard(48, rank, 3, 4), WIDTH)])
        assert np.array_equal(part, whole[rank::3])
    (third,) = augmentation.of_epoch(7, 1, 3, Shard(48, 0, 1, 8), WIDTH, 2, 3)
    assert np.array_equal(third, whole[16:24])
    for case in ((8, 1, 3), (7, 0, 3), (7, 1, 4)):
        other = np.concatenate([*augmentation.of_epoch(*case, Shard(48, 0, 1, 8), WIDTH)])
        assert not np.array_equal(other, whole)


def test_transforms_cover_the_circle_and_both_hemispheres():
    transforms = augmentation.drawn_transforms(1, 0, np.arange(6000), WIDTH)
    assert np.bincount(transforms[:, 0], minlength=WIDTH).min() > 60 and transforms[:, 0].max() == WIDTH - 1
    assert 2800 < transforms[:, 1].sum() < 3200 and set(transforms[:, 1]) == {0, 1}


def test_targets_have_the_class_numbers_of_the_detector():
    boxes, _ = cleaned(frame(WHOLE, [1, 1, 9, 9, 1], [2, 2, 9, 9, 0], [3, 3, 9, 9, 3]), HEIGHT, WIDTH)
    all_four = targets(boxes, (0, 1, 2, 3))
    assert all_four.dtype == np.float32 and np.array_equal(all_four, boxes)
    two = targets(boxes, (3, 1))
    assert two[0, :3].tolist() == [[1, 1, 9, 9, 1], [3, 3, 9, 9, 0], UNUSED] and two.shape == (1, BOXES, 5)

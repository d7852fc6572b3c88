"""Boxes, anchors, their matches and samples: by hand, and against plain loops."""

from typing import Any

import numpy as np
import pytest
import torch

from hpcai.models.detection.anchors import Levels
from hpcai.models.detection.assign import ANCHORS, REGIONS, match, priorities, ranked, sample, truth
from hpcai.models.detection.boxes import area, clipped, decode, encode, overlaps

CPU = torch.device("cpu")


def boxes(count: int, seed: int, size: float = 60.0) -> torch.Tensor:
    random = np.random.default_rng(seed)
    low = random.uniform(0, size, (count, 2))
    return torch.from_numpy(np.concatenate([low, low + random.uniform(2, 30, (count, 2))], 1).astype(np.float32))


def overlap_by_hand(one: Any, other: Any) -> float:
    height = max(0.0, min(one[2], other[2]) - max(one[0], other[0]))
    width = max(0.0, min(one[3], other[3]) - max(one[1], other[1]))
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return height * width / (sum(areas) - height * width)


def test_offsets_are_those_from_anchors_to_boxes() -> None:
    anchors, wanted = boxes(50, 1), boxes(50, 2)
    for scales in ((1.0, 1.0), (10.0, 5.0)):
        found = decode(encode(wanted, anchors, scales), anchors, scales)
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-4)
    # Centre 2 down of a height of 10, 5 to the left of a width of 20, twice as high, half as wide.
    offsets = encode(torch.tensor([[-3.0, 0.0, 17.0, 10.0]]), torch.tensor([[0.0, 0.0, 10.0, 20.0]]), (10.0, 5.0))
    log2 = float(np.log(2))
    torch.testing.assert_close(offsets, torch.tensor([[2.0, -2.5, 5 * log2, -5 * log2]]))


def test_offsets_of_boxes_without_extent_are_finite_and_huge_ones_do_not_overflow() -> None:
    nothing = torch.full((1, 4), -1.0)
    assert encode(nothing, boxes(1, 0)).isfinite().all()
    assert decode(torch.full((1, 4), 1e4), boxes(1, 0)).isfinite().all()


def test_overlaps_against_a_loop() -> None:
    first, second = boxes(30, 1), boxes(20, 2)
    expected = torch.tensor([[overlap_by_hand(a, b) for b in second.tolist()] for a in first.tolist()])
    torch.testing.assert_close(overlaps(first, second), expected, rtol=1e-5, atol=1e-6)
    assert overlaps(torch.zeros(1, 4), torch.zeros(1, 4)).item() == 0
    torch.testing.assert_close(overlaps(torch.stack([first, first]), second), torch.stack([expected, expected]))


def test_clipped_boxes_stay_in_the_image() -> None:
    given = torch.tensor([[-3.0, 2.0, 50.0, 90.0], [float("nan"), 70.0, 10.0, 80.0]])
    assert clipped(given, 40, 64).tolist() == [[0, 2, 40, 64], [0, 64, 10, 64]]


def test_anchors_have_the_right_areas_ratios_and_places() -> None:
    levels = Levels((96, 144), [(24, 36), (12, 18)], (0.5, 1.0, 2.0), 4.0)
    assert levels.strides == [4, 8]
    fine, coarse = levels.anchors(CPU)
    assert fine.shape == (24 * 36 * 3, 4) and coarse.shape == (12 * 18 * 3, 4)
    torch.testing.assert_close(area(fine), torch.full((2592,), 256.0))
    torch.testing.assert_close(area(coarse), torch.full((648,), 1024.0))
    sides = fine[:3, 2:] - fine[:3, :2]
    torch.testing.assert_close(sides[:, 0] / sides[:, 1], torch.tensor([0.5, 1.0, 2.0]))
    row, column, ratio = 5, 7, 1  # the last one varies fastest
    anchor = fine[(row * 36 + column) * 3 + ratio]
    torch.testing.assert_close(anchor, torch.tensor([22.0 - 8, 30.0 - 8, 22.0 + 8, 30.0 + 8]))
    assert levels.anchors(CPU)[0] is fine


@pytest.mark.parametrize(
    ("image", "size", "stride"), [((97, 70), (25, 18), 4), ((5, 9), (1, 1), 8), ((768, 1152), (12, 18), 64)]
)
def test_strides_of_sizes_that_do_not_divide(image: Any, size: Any, stride: int) -> None:
    assert Levels(image, [size], (1.0,), 1.0).strides == [stride]


def test_large_regions_are_read_from_coarse_levels() -> None:
    levels = Levels((768, 1152), [(192, 288), (96, 144), (48, 72), (24, 36)], (1.0,), 8.0)
    sides = torch.tensor([0.0, 1.0, 111.0, 112.0, 223.0, 224.0, 447.0, 448.0, 3000.0])
    regions = torch.stack([torch.zeros_like(sides)] * 2 + [sides] * 2, -1)
    assert levels.of_regions(regions, 28.0, 4).tolist() == [0, 0, 0, 1, 1, 2, 2, 3, 3]


def match_by_hand(candidates: Any, true: Any, rule: Any) -> list[tuple[bool, bool]]:
    """For each candidate whether it shows an object, or background."""
    table = [[overlap_by_hand(box, c) for c in candidates] for box in true]
    found = []
    for place in range(len(candidates)):
        own = [row[place] for row in table]
        best = any(row[place] == max(row) > 0 for row in table) if rule.every_box else False
        thing = max(own) >= rule.overlaps[1] or best
        found.append((thing, max(own) < rule.overlaps[0] and not thing))
    return found


@pytest.mark.parametrize("rule", [ANCHORS, REGIONS])
def test_matches_against_a_loop(rule: Any) -> None:
    candidates, true = boxes(200, 3).double(), boxes(5, 4).double()
    rows = torch.full((1, 15, 5), -1.0)
    rows[0, [0, 2, 3, 7, 14], :4] = true.float()  # padding in the middle as well
    rows[0, [0, 2, 3, 7, 14], 4] = torch.arange(5) % 4.0
    given = truth(rows)
    assert given.there.sum() == 5
    found = match(candidates.float().unsqueeze(0), given, rule)
    expected = match_by_hand(candidates.float().double().tolist(), true.float().double().tolist(), rule)
    assert list(zip(found.foreground[0].tolist(), found.background[0].tolist(), strict=True)) == expected
    assert found.foreground.any() and found.background.any()
    shown = given.boxes[0][found.nearest[0]][found.foreground[0]]
    near = overlaps(candidates.float()[found.foreground[0]], shown).diagonal()
    assert (near > 0).all() and (near.min() >= 0.5 if rule is REGIONS else True)


def test_a_boxs_best_anchor_is_matched_with_it_despite_a_larger_overlap() -> None:
    anchors = torch.tensor([[[0.0, 0, 10, 10], [0, 0, 10, 9]]])
    rows = torch.full((1, 15, 5), -1.0)
    rows[0, 0] = torch.tensor([0, 0, 10, 9, 1.0])
    rows[0, 1] = torch.tensor([0, 8, 10, 14, 0.0])  # overlaps the first anchor a little, the second one less
    assert match(anchors, truth(rows), ANCHORS).nearest.tolist() == [[1, 0]]


def test_images_without_boxes_match_background_only() -> None:
    found = match(boxes(50, 3).unsqueeze(0), truth(torch.full((2, 15, 5), -1.0)), ANCHORS)
    assert found.background.all() and not found.foreground.any()


@pytest.mark.parametrize(("things", "backgrounds"), [(40, 60), (3, 60), (40, 5), (0, 60), (0, 0), (2, 2)])
def test_a_sample_has_a_share_of_objects_and_is_filled_with_background(things: int, backgrounds: int) -> None:
    thing, background = torch.zeros(2, 100, dtype=torch.bool), torch.zeros(2, 100, dtype=torch.bool)
    thing[:, :things], background[:, 100 - backgrounds :] = True, True
    priority = priorities(11, 2, 100, CPU)
    indices, shows, there = ranked(thing, background, priority, 16, 0.25)
    chosen = min(things, 4)
    assert shows.sum(1).tolist() == [chosen] * 2
    assert there.sum(1).tolist() == [chosen + min(backgrounds, 16 - chosen)] * 2
    for image in range(2):
        assert len(set(indices[image].tolist())) == 16
        assert thing[image, indices[image, shows[image]]].all()
        assert background[image, indices[image, there[image] & ~shows[image]]].all()
        best = priority[image][thing[image]].sort(descending=True).values[:chosen]
        assert priority[image, indices[image, shows[image]]].tolist() == best.tolist()


def test_priorities_differ_in_an_image_and_between_images_and_draws() -> None:
    first, again, other = (priorities(draw, 3, 500, CPU) for draw in (5, 5, 6))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert all(len(set(row.tolist())) == 500 for row in (*first, *other))
    assert not torch.equal(first[0], first[1])
    largest = torch.stack([priorities(draw * 7919, 8, 64, CPU).argmax(1) for draw in range(200)])
    assert torch.bincount(largest.flatten(), minlength=64).max() < 5 * largest.numel() / 64  # no place is preferred


def test_absent_candidates_are_not_sampled() -> None:
    rows = torch.full((1, 15, 5), -1.0)
    rows[0, 0] = torch.tensor([0.0, 0, 20, 20, 2])
    candidates = torch.tensor([[0.0, 0, 20, 20], [0, 0, 20, 19], [40, 40, 60, 60], [41, 40, 60, 60]]).unsqueeze(0)
    there = torch.tensor([[False, True, False, True]])
    chosen = sample(candidates, there, truth(rows), REGIONS, 4, 0)
    assert chosen.there.sum() == 2 and chosen.foreground.tolist() == [[True, False, False, False]]
    assert chosen.indices[0, :2].tolist() == [1, 3] and chosen.classes[0, 0] == 2
    assert chosen.boxes[0, 0].tolist() == [0, 0, 20, 20]

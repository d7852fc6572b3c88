"""Average precision: equal to COCO's own evaluation on random frames, and computed by hand."""

import contextlib
import io
from typing import Any

import numpy as np
import pytest
from random_detections import CLASSES, Drawn, drawn

from hpcai.detections import MOST, coco_evaluation
from hpcai.detections.boxes import areas, iou
from hpcai.detections.coco_evaluation import Matches, average_precision, matched, mean_average_precision

NOTHING = np.empty((0, 6), np.float32)


def averages(made: Drawn, overlap: float, classes: int = CLASSES) -> Any:
    return average_precision(evaluated(made, overlap, classes))


def evaluated(made: Drawn, overlap: float = 0.5, classes: int = CLASSES) -> Matches:
    return matched(range(len(made.truths)), made.detections, made.truths, overlap, classes)


def of_frames(*frames: tuple[list[list[float]], list[list[int]]]) -> Drawn:
    """Made from lists of detections and of true boxes."""
    return Drawn(
        [np.array(found, np.float32).reshape(-1, 6) for found, _ in frames],
        [np.array(true, np.int32).reshape(-1, 5) for _, true in frames],
    )


def by_coco(made: Drawn, overlap: float) -> Any:
    """The same by pycocotools; -1 becomes NaN."""
    pytest.importorskip("pycocotools", reason="NO pycocotools: AVERAGE PRECISION NOT COMPARED WITH COCO'S")
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    def box(row: Any) -> list[float]:
        ymin, xmin, ymax, xmax = (float(edge) for edge in row[:4])
        return [xmin, ymin, xmax - xmin, ymax - ymin]

    true = [(frame, row) for frame, rows in enumerate(made.truths) for row in rows if row[4] >= 0]
    found = [(frame, row) for frame, rows in enumerate(made.detections) for row in rows]
    results = [
        {"image_id": frame, "bbox": box(row), "score": float(row[4]), "category_id": int(row[5])}
        for frame, row in found
    ]
    known = COCO()
    known.dataset = {
        "info": {},
        "images": [{"id": frame} for frame in range(len(made.truths))],
        "categories": [{"id": label} for label in range(CLASSES)],
        "annotations": [
            {"id": number, "image_id": frame, "bbox": box(row), "category_id": int(row[4]), "area": 1.0, "iscrowd": 0}
            for number, (frame, row) in enumerate(true, 1)
        ],
    }
    with contextlib.redirect_stdout(io.StringIO()):
        known.createIndex()
        evaluation = COCOeval(known, known.loadRes(results), "bbox")
        evaluation.params.iouThrs = np.array([overlap])
        evaluation.params.areaRng, evaluation.params.areaRngLbl = [[0, 1e10]], ["all"]
        evaluation.params.maxDets = [MOST]
        evaluation.evaluate()
        evaluation.accumulate()
    found_precision = evaluation.eval["precision"][0, :, :, 0, 0]  # recalls, classes
    return np.where(found_precision[0] < 0, np.nan, found_precision.mean(axis=0))


@pytest.mark.parametrize("overlap", [0.5, 0.1, 0.75, 1.0])
@pytest.mark.parametrize("seed", range(8))
def test_average_precision_is_that_of_cocos_evaluation(seed: int, overlap: float) -> None:
    made = drawn(seed, frames=4 + 4 * seed, classes=CLASSES - seed % 2)
    computed, expected = averages(made, overlap), by_coco(made, overlap)
    assert np.isnan(computed[-1]) == bool(seed % 2)
    np.testing.assert_allclose(computed, expected, atol=1e-6, rtol=0)
    assert np.isclose(mean_average_precision(computed), np.nanmean(expected), atol=1e-6, rtol=0)


def test_random_frames_have_different_precisions() -> None:
    """Otherwise the comparison above would show little."""
    values = [averages(drawn(seed), overlap) for seed in range(4) for overlap in (0.1, 0.5)]
    assert len({float(value) for each in values for value in each}) > 20
    assert 0.1 < np.mean(values) < 0.9


def plain_average(hits: Any, truths: int) -> float:
    """Without making precision monotone."""
    right = np.cumsum(hits)
    share = right / np.arange(1, len(hits) + 1)
    return float(np.append(share, 0.0)[np.searchsorted(right / truths, coco_evaluation.RECALLS)].mean())


FAULTS = {
    "hit twice": ("_hits", lambda overlap, least: (overlap >= least).any(axis=1)),
    "another overlap": ("_hits", lambda overlap, least, genuine=coco_evaluation._hits: genuine(overlap, least + 0.02)),
    "not monotone": ("_average", plain_average),
    "boxes closed": ("overlaps", lambda a, b: iou(*(np.add(each[:, :4], [0, 0, 1, 1]) for each in (a, b)))),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_the_evaluation_change_random_precisions(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [drawn(seed) for seed in range(8)]
    right = [averages(each, 0.5) for each in made]
    monkeypatch.setattr(coco_evaluation, *FAULTS[name])
    assert not np.allclose([averages(each, 0.5) for each in made], right, atol=1e-6, equal_nan=True)


def test_average_precision_by_hand() -> None:
    """Hit, miss, hit of three true boxes: precision 1 up to recall 1/3, 2/3 up to 2/3, then 0."""
    unit, far = [0, 0, 4, 4], [20, 20, 24, 24]
    made = of_frames(
        ([[*unit, 0.9, 0], [*far, 0.8, 0]], [[*unit, 0], [8, 8, 12, 12, 0]]),
        ([[*unit, 0.7, 0]], [[*unit, 0]]),
    )
    found = averages(made, 0.5, 2)
    assert np.isclose(found[0], (34 * 1 + 33 * 2 / 3) / 101)
    assert np.isnan(found[1]) and mean_average_precision(found) == found[0]


def test_a_true_box_is_hit_once_by_the_highest_score() -> None:
    unit = [0, 0, 4, 4]
    rows = evaluated(of_frames(([[*unit, 0.3, 1], [0, 0, 4, 3, 0.9, 1], [*unit, 0.8, 0]], [[*unit, 1]])), 0.5, 2).rows
    assert rows["hit"].tolist() == [1, 0, 0] and rows["score"].tolist() == pytest.approx([0.9, 0.8, 0.3])


def test_the_hundred_best_detections_of_a_frame_count() -> None:
    false = [[20, 20, 24, 24, 0.5, 1]] * MOST
    true = ([0, 0, 4, 4, 0.4, 0], [0, 0, 4, 4, 0])
    assert averages(of_frames(([*false[1:], true[0]], [true[1]])), 0.5, 2)[0] == 1.0
    assert averages(of_frames(([*false, true[0]], [true[1]])), 0.5, 2)[0] == 0.0


def test_frames_without_boxes_or_detections() -> None:
    empty = of_frames(([], []), ([], [[-1] * 5]))
    assert np.isnan(averages(empty, 0.5)).all() and np.isnan(mean_average_precision(averages(empty, 0.5)))
    missed = of_frames(([], [[0, 0, 4, 4, 2]]))
    assert averages(missed, 0.5)[2] == 0.0
    assert averages(of_frames(([[0, 0, 4, 4, 0.9, 2]], [[0, 0, 4, 4, 2]])), 1.0)[2] == 1.0


def test_the_order_of_the_rows_does_not_matter() -> None:
    whole = evaluated(drawn(3, 30))
    random = np.random.default_rng(1)
    for _ in range(5):
        shuffled = Matches(random.permutation(whole.rows), whole.truths)
        assert np.array_equal(average_precision(shuffled), average_precision(whole))


@pytest.mark.parametrize("made", [of_frames(([[0, 0, 4, 4, 1, 4]], [])), of_frames(([], [[0, 0, 4, 4, 4]]))])
def test_unknown_classes_are_refused(made: Drawn) -> None:
    with pytest.raises(ValueError, match="frame 0: a class is none of 0 to 3"):
        evaluated(made)


def test_boxes_are_half_open() -> None:
    boxes = np.array([[0, 0, 4, 4], [0, 2, 4, 6], [4, 0, 8, 4], [1, 1, 1, 5], [4, 4, 0, 0]])
    assert areas(boxes).tolist() == [16, 16, 16, 0, 0]
    assert iou(boxes, boxes)[0].tolist() == [1, 8 / 24, 0, 0, 0] and iou(boxes, boxes)[3, 3] == 0
    assert iou(boxes[:0], boxes).shape == (0, 5)

"""The quality of a group's detections: independent of which rank evaluated which frame, and of the message size."""

import numpy as np
import pytest
from mpi4py import MPI
from random_detections import CLASSES, Drawn, drawn

from hpcai.detections.coco_evaluation import ROW, Matches, average_precision, matched
from hpcai.train.detection_quality import Quality, quality


def evaluated(made: Drawn, frames: list[int]) -> Matches:
    """The matches of some frames of a set."""
    return matched(frames, [made.detections[k] for k in frames], [made.truths[k] for k in frames], 0.5, CLASSES)


@pytest.mark.parallel(3)
def test_the_number_of_ranks_changes_no_bit() -> None:
    world = MPI.COMM_WORLD
    made = drawn(5, 40)
    expected = average_precision(evaluated(made, list(range(40))))
    shares = {
        "every so many": list(range(world.rank, 40, world.size)),
        "backwards": list(range(world.rank, 40, world.size))[::-1],
        "one has all": list(range(40)) if world.rank == world.size - 1 else [],
    }
    for name, frames in shares.items():
        for block in (1, 7 * world.size, 2**20):
            found = quality(evaluated(made, frames), world, block)
            assert found.classes == tuple(expected.tolist()), (name, block)
            assert found.mean == expected.mean() and world.allreduce(hash(found)) == world.size * hash(found)


@pytest.mark.parallel(2)
def test_frames_missing_on_a_rank_change_the_quality() -> None:
    world = MPI.COMM_WORLD
    made, own = drawn(5, 10), list(range(world.rank, 10, world.size))
    whole, part = evaluated(made, own), evaluated(made, own[1:] if world.rank == world.size - 1 else own)
    assert quality(part, world) != quality(whole, world) == quality(evaluated(made, list(range(10))), MPI.COMM_SELF)


def test_classes_without_true_boxes_have_no_precision() -> None:
    found = quality(Matches(np.empty(0, ROW), np.array([3, 0])), MPI.COMM_SELF)
    assert found == Quality((0.0, None), 0.0, (3, 0))
    assert quality(Matches(np.empty(0, ROW), np.array([0, 0])), MPI.COMM_SELF) == Quality((None, None), None, (0, 0))

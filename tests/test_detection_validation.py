"""A detector evaluated by its group: the same precision as with all frames in one place."""

from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from known_detections import Answers, Numbered
from tiny import alone, repeating

from hpcai.comm.grid import Group, split
from hpcai.data.order import ValidationShard
from hpcai.formulas.sample_fingerprint import expected_fingerprint
from hpcai.train.detection_validation import not_finite
from hpcai.train.validation import ValidationResult


def evaluated(
    frames: Numbered, model: Answers, group: Group, batch: int = 4, rank: int | None = None
) -> ValidationResult:
    member = group.coordinates.member if rank is None else rank
    shard = ValidationShard(len(frames.truths), member, group.degree, batch)
    return frames.validation(shard).run(model, group)


@pytest.mark.parallel(3)
def test_groups_of_any_size_find_the_precision_of_all_frames() -> None:
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    for degree in range(1, world.size + 1):
        for frames in (1, 2, degree, 17):  # some ranks have none
            group = split(world, world.size // degree, degree, "row")
            if group is not None:
                half = Numbered(0, frames)
                answers = half.answers(group.coordinates.group)
                model = Answers(answers).train()
                found = evaluated(half, model, group)
                precision = tuple(half.precision(answers))
                expected = ValidationResult(frames, expected_fingerprint(frames), 0, average_precision=precision)
                assert found == expected, (degree, frames)
                assert model.training and sorted(group.model.allreduce(half.read)) == list(range(frames))
                group.free()


@pytest.mark.parallel(3)
def test_frames_evaluated_twice_are_counted() -> None:
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    group = split(world, 1, world.size, "row")
    assert group
    half = Numbered(0, 4 * world.size)
    model = Answers(half.answers(0))
    twice = evaluated(half, model, group, rank=0)
    assert twice.counted == 4 * world.size
    assert (twice.fingerprint == expected_fingerprint(4 * world.size)) == (world.size == 1)
    faulty: Any = repeating(half)
    validation = half.validation(ValidationShard(4 * world.size, group.coordinates.member, world.size, 2))
    validation.loader = faulty
    assert validation.run(model, group).fingerprint != expected_fingerprint(4 * world.size)


def test_values_that_are_not_finite_are_counted() -> None:
    half = Numbered(0, 9)
    model = Answers(half.answers(0))
    assert evaluated(half, model, alone()).not_finite == 0
    model.tables[0][:, 99] = torch.tensor([np.nan, np.inf, 0, 0, np.nan, -1])  # of unused rows
    assert evaluated(half, model, alone()).not_finite == 0
    model.tables[0][3, 0, :2], model.tables[0][3, 0, 5] = torch.tensor([np.nan, -np.inf]), 1
    assert evaluated(half, model, alone()).not_finite == 2
    with torch.no_grad():
        model.weight[1] = np.nan
    assert evaluated(half, model, alone()).not_finite == 3
    assert not_finite(model, np.zeros((0, 100, 6), np.float32)) == 1


def test_a_detector_with_infinite_weights_finds_nothing_and_has_diverged() -> None:
    half = Numbered(0, 5)
    model = Answers([rows[:0] for rows in half.answers(0)])
    model.weight.data.fill_(np.inf)
    found = evaluated(half, model, alone())
    assert found.not_finite == 1 and {*found.average_precision} <= {0.0, None}


def test_validation_stops_between_batches_when_asked() -> None:
    half, asked = Numbered(0, 12), iter([False, True])
    validation = half.validation(ValidationShard(12, 0, 1, 4))
    found = validation.run(Answers(half.answers(0)), alone(), lambda: next(asked))
    assert found.counted == 4


def test_warm_up_evaluates_the_first_and_the_last_batch() -> None:
    half = Numbered(0, 10)
    model = Answers(half.answers(0)).train()
    half.validation(ValidationShard(10, 0, 1, 4)).warm_up(model)
    assert half.read == [0, 1, 2, 3, 8, 9] and model.training
    half.validation(ValidationShard(1, 1, 2, 4)).warm_up(model)  # a rank without frames
    assert list(islice(half.read, 6, None)) == []

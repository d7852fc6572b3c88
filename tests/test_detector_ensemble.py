"""The ensemble of detectors, evaluated on any grid, compared with an evaluation in one place."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from known_detections import Answers, Array, Numbered
from sampled_parameters import one_in
from tiny import alone, repeating, unending

from hpcai.comm.grid import Group, split
from hpcai.data import bootstrap
from hpcai.data.order import ValidationShard
from hpcai.detections import CLASS
from hpcai.detections.agreement import agreement, pairs
from hpcai.detections.weighted_box_fusion import fused
from hpcai.train import detector_ensemble
from hpcai.train.detector_ensemble import Fused, FusedQuality, evaluate, neighbours

SEED, BATCH = 3, 4


def in_one_place(groups: int, halves: list[Numbered], samplers: list[bootstrap.Sampler]) -> FusedQuality:
    """The evaluation by definition."""
    answers = [[half.answers(model) for model in range(groups)] for half in halves]
    found = [fused(models) if groups > 1 else models[0] for models in zip(*answers[0], strict=True)]
    drawn = [set(sampler.draw(np.arange(sampler.size)).tolist()) for sampler in samplers]
    bag = {
        frame: fused([rows for rows, own in zip(models, drawn, strict=True) if frame not in own])
        for frame, models in enumerate(zip(*answers[1], strict=True))
        if groups > 1 and not all(frame in own for own in drawn)
    }
    shared = [agreement(a, b) for models in zip(*answers[0], strict=True) for a, b in neighbours(list(models))]
    strict, loose = (tuple(halves[0].precision(found, overlap)) for overlap in (0.5, 0.1))
    return FusedQuality(
        precision=strict,
        loose_precision=loose,
        true_boxes=tuple(np.bincount(halves[0].truths[halves[0].truths[:, :, 4] >= 0][:, 4], minlength=4).tolist()),
        agreement=pytest.approx(sum(shared), abs=1e-9),
        validation_miscounted=0,
        bag_evaluated=len(bag),
        bag_precision=tuple(halves[1].precision([*bag.values()], of=np.array([*bag], np.int64))),
    )


def ensemble(
    group: Group, halves: list[Numbered], kind: str = "multinomial", **other: Any
) -> tuple[FusedQuality, Fused, Answers]:
    """The results of the groups; `other` replaces the first loader, or the rank's place in its group."""
    own, frames, training = group.coordinates.group, len(halves[0].truths), len(halves[1].truths)
    sampler = bootstrap.sampler(kind, training, SEED, own, group.groups)
    model = Answers(*(half.answers(own) for half in halves)).train()
    member = other.get("rank", group.coordinates.member)
    validation = halves[0].validation(ValidationShard(frames, member, group.degree, BATCH))
    validation.loader = other.get("loader", halves[0])
    loader: Any = halves[1]
    return *evaluate(model, group, validation, loader, sampler, unending()), model


@pytest.mark.parallel(4)
@pytest.mark.parametrize("room", one_in(3, [3 * 2400 * 4, detector_ensemble.MAX_BYTES, 1]))
def test_any_grid_finds_the_same_as_an_evaluation_in_one_place(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if at most one frame of all models, or of some, is sent at a time."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    monkeypatch.setattr(detector_ensemble, "MAX_BYTES", room)
    shapes = [(p, q) for p in range(1, world.size + 1) for q in range(1, world.size // p + 1)]
    for number, (groups, degree) in enumerate(shapes):
        kind, mapping = ("multinomial", "poisson")[number % 2], ("row", "column")[number // 2 % 2]
        halves = [Numbered(0, 7 * degree + 1), Numbered(1, 5 * degree + degree // 2)]
        group = split(world, groups, degree, mapping)
        if group is not None:
            samplers = [bootstrap.sampler(kind, len(halves[1].truths), SEED, model, groups) for model in range(groups)]
            found, own, model = ensemble(group, halves, kind)
            assert found == in_one_place(groups, halves, samplers), (groups, degree, kind)
            assert group.active.allgather(found) == [found] * groups * degree and model.training
            met = [frame for rank in group.active.allgather(own.indices) for frame in rank]
            assert sorted(met) == list(range(len(halves[0].truths)))
            group.free()


@pytest.mark.parallel(4)
def test_detections_are_those_of_their_frames_with_their_boxes() -> None:
    from mpi4py import MPI

    group = split(MPI.COMM_WORLD, MPI.COMM_WORLD.size, 1, "row")
    assert group
    half = Numbered(0, 10)
    _, own, _ = ensemble(group, [half, Numbered(1, 5)])
    answers = [half.answers(model) for model in range(group.groups)]
    for index, rows, boxes in zip(own.indices, own.detections, own.boxes, strict=True):
        models = [model[index] for model in answers]
        assert np.array_equal(rows, fused(models) if len(models) > 1 else models[0])
        assert np.array_equal(boxes, half.truths[index])


def frames_reversed(loader: Any) -> Any:
    """A loader with a fault: the frames of each batch in reverse order, but all of them."""

    def faulty(batches: Iterable[Array]) -> Iterator[Any]:
        for x, y, indices in loader(batches):
            yield x.flip(0), y.flip(0), indices[::-1].copy()

    return faulty


@pytest.mark.parallel(4)
def test_frames_that_are_missing_or_mixed_up_are_miscounted() -> None:
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    for groups in {1, 2, world.size}:
        group = split(world, groups, world.size // groups, "row")
        if group is not None:
            halves = [Numbered(0, 12 * group.degree), Numbered(1, 5 * group.degree)]
            first, last = group.coordinates.group == 0, group.coordinates.group == groups - 1

            def miscounted(**other: Any) -> int:
                return int(ensemble(group, halves, **other)[0].validation_miscounted)  # noqa: B023

            assert miscounted() == 0
            assert (miscounted(rank=0) > 0) == (group.degree > 1)
            assert miscounted(loader=repeating(halves[0]) if first else halves[0]) > 0
            assert (miscounted(loader=frames_reversed(halves[0]) if last else halves[0]) > 0) == (groups > 1)
            group.free()


@pytest.mark.parallel(4)
def test_identical_models_do_not_disagree() -> None:
    from mpi4py import MPI

    group = split(MPI.COMM_WORLD, MPI.COMM_WORLD.size, 1, "row")
    assert group
    half, other = Numbered(0, 9), Numbered(1, 5)
    validation, loader = half.validation(ValidationShard(9, 0, 1, BATCH)), other
    draws = bootstrap.sampler("multinomial", 5, SEED, group.coordinates.group, group.groups)
    model = Answers(half.answers(1), other.answers(1))
    numbers, _ = evaluate(model, group, validation, loader, draws, unending())  # type: ignore[arg-type]
    assert numbers.agreement == 9 * pairs(group.groups)


@pytest.mark.parallel(4)
def test_a_model_with_outputs_that_are_not_finite_does_not_stop_the_others() -> None:
    from mpi4py import MPI

    group = split(MPI.COMM_WORLD, MPI.COMM_WORLD.size, 1, "row")
    assert group
    halves = [Numbered(0, 9), Numbered(1, 5)]
    model = Answers(*(half.answers(0) for half in halves))
    if group.coordinates.group == 0:
        for table in model.tables:
            table[:, :, :CLASS] = torch.nan
    validation: Any = halves[0].validation(ValidationShard(9, 0, 1, BATCH))
    draws = bootstrap.sampler("multinomial", 5, SEED, group.coordinates.group, group.groups)
    numbers, _ = evaluate(model, group, validation, halves[1], draws, unending())  # type: ignore[arg-type]
    assert numbers.validation_miscounted == 0
    assert all(0 <= (value or 0) <= 1 for value in numbers.precision)


@pytest.mark.parametrize("models", range(1, 7))
def test_each_model_is_compared_with_its_neighbours(models: int) -> None:
    whole = [np.full((1, 6), model, np.float32) for model in range(models)]
    met = [tuple(int(rows[0, 0]) for rows in pair) for pair in neighbours(whole)]
    assert len(met) == pairs(models) == len({frozenset(pair) for pair in met})
    assert all(first != second for first, second in met) and {*sum(met, ())} == set(range(models if models > 1 else 0))


def test_one_model_has_no_agreement() -> None:
    halves = [Numbered(0, 9), Numbered(1, 5)]
    numbers, own, _ = ensemble(replace(alone()), halves)
    assert (numbers.agreement, numbers.bag_evaluated) == (0, 0)
    assert numbers.bag_precision == (None,) * 4
    assert all(np.array_equal(a, b) for a, b in zip(own.detections, halves[0].answers(0), strict=True))

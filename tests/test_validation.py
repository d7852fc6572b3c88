"""Validation: each sample evaluated by exactly one rank, whatever the number of ranks, and the proof of it."""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpi4py import MPI
from tiny import CPU, Numbered, Table, alone, repeating

from hpcai.comm.grid import Group, split
from hpcai.data.order import ValidationShard
from hpcai.formulas.sample_fingerprint import expected_fingerprint, fingerprint
from hpcai.train.validation import Validation, ValidationResult, evaluated_together


@given(st.lists(st.integers(0, 2**40), min_size=1), st.randoms(use_true_random=False))
def test_fingerprint_depends_on_the_samples_not_on_order_or_batches(samples: list[int], random: Any) -> None:
    shuffled = random.sample(samples, len(samples))
    cut = random.randint(0, len(samples))
    parts = [shuffled[:cut], shuffled[cut:]]
    assert fingerprint(np.array(samples)) == sum(fingerprint(np.array(part, np.int64)) for part in parts) % (1 << 63)


@pytest.mark.parametrize("n", [1, 2, 23, 2000])
@pytest.mark.parametrize("block", [1, 7, 1 << 16])
def test_expected_fingerprint_has_each_sample_once(n: int, block: int) -> None:
    assert expected_fingerprint(n, block) == fingerprint(np.random.default_rng(0).permutation(n))


def test_fingerprint_detects_omissions_hidden_by_repetitions() -> None:
    n = 300
    prints = np.array([fingerprint(np.array([sample])) for sample in range(n)], object)
    expected = expected_fingerprint(n)
    assert len(set(prints)) == n  # so every single exchange is detected
    for left_out, repeated in ((0, 1), (n - 1, 0), (7, 8)):
        assert (expected - prints[left_out] + prints[repeated]) % (1 << 63) != expected
    # two exchanges that leave the sum of the numbers as it is, which a plain checksum would miss
    for low, high in combinations(range(1, n - 1, 7), 2):
        exchanged = prints[low - 1] + prints[high + 1] - prints[low] - prints[high]
        assert exchanged % (1 << 63) != 0


def problem(n: int, classes: int = 7) -> tuple[Numbered, Table, int]:
    """n images, a model, and its number of right answers; the same on every rank."""
    random = np.random.default_rng(n)
    logits, answers = random.standard_normal((n, classes)).astype(np.float32), random.integers(0, classes, n)
    return Numbered(0, answers), Table(logits), int((logits.argmax(1) == answers).sum())


@pytest.mark.parallel(3)
def test_each_sample_is_evaluated_once_by_groups_of_any_size() -> None:
    world = MPI.COMM_WORLD
    for degree in range(1, world.size + 1):
        group = split(world, world.size // degree, degree, "column")
        if group is None:
            continue
        for n, batch in ((23, 4), (24, 4), (300, 32), (1, 4), (max(1, degree - 1), 1), (degree * 8, 8)):
            images, model, correct = problem(n)
            shard = ValidationShard(n, group.coordinates.member, degree, batch)
            validation = Validation(images.loader(batch), shard, CPU)
            model.train()
            validation.warm_up(model)
            images.read.clear()
            assert validation.run(model, group) == ValidationResult(n, expected_fingerprint(n), 0, correct)
            assert sorted(group.model.allreduce(images.read)) == list(range(n))
            assert model.training
        _check_repeated(group)
        group.free()


def _check_repeated(group: Group) -> None:
    """The right number of samples, but wrong ones: each rank evaluates the first one's, or one batch twice."""
    n = 12 * group.degree
    images, model, _ = problem(n)
    found = Validation(images.loader(4), ValidationShard(n, 0, group.degree, 4), CPU).run(model, group)
    assert found.counted == n
    assert (found.fingerprint == expected_fingerprint(n)) == (group.degree == 1)
    loader = repeating(images.loader(4))
    found = Validation(loader, ValidationShard(n, group.coordinates.member, group.degree, 4), CPU).run(model, group)
    assert found.counted == n
    assert found.fingerprint != expected_fingerprint(n)


@pytest.mark.parallel(3)
def test_ranks_that_share_a_model_evaluate_equally_many_batches() -> None:
    """One rank is asked to stop, or has fewer batches: the others do not wait for it in a batch that it leaves out."""
    world, last = MPI.COMM_WORLD, MPI.COMM_WORLD.size - 1
    for stopping, lacking, expected in ((None, None, 7), (3, None, 3), (None, 4, 4), (0, 2, 0)):
        asked, number = iter(range(100)), lacking if lacking is not None and world.rank == last else 7

        def stop(asked: Iterator[int] = asked, stopping: int | None = stopping) -> bool:
            return world.rank == 0 and next(asked) == stopping

        together = evaluated_together(range(number), world, stop)
        assert [world.allreduce(batch) for batch in together] == [world.size * batch for batch in range(expected)]


def test_outputs_that_are_not_finite_are_counted() -> None:
    images, model, _ = problem(12)
    model.halves[0][2, :3] = float("nan")
    model.halves[0][11, 4] = float("-inf")
    assert Validation(images.loader(5), ValidationShard(12, 0, 1, 5), CPU).run(model, alone()).not_finite == 4


def test_warm_up_runs_the_shapes_of_the_first_and_the_last_batch() -> None:
    for n, batch, sizes in ((10, 4, [4, 2]), (4, 4, [4]), (3, 4, [3]), (8, 4, [4, 4])):
        images, model, _ = problem(n)
        seen: list[int] = []
        model.register_forward_hook(lambda module, inputs, output, seen=seen: seen.append(len(output)))
        Validation(images.loader(batch), ValidationShard(n, 0, 1, batch), CPU).warm_up(model)
        assert seen == sizes
    Validation(images.loader(4), ValidationShard(1, 3, 4, 4), CPU).warm_up(model)
    assert seen == sizes  # a rank without samples has nothing to warm up

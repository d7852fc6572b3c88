"""Clipping of gradients by their norm, and the same of a replayed step."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from mpi4py import MPI

from hpcai.train.clipped_step import clipped
from hpcai.train.clipping import Clipping
from hpcai.train.layerwise import Shards
from hpcai.train.step_tensors import Tensor

FP32 = torch.finfo(torch.float32)


def weights(*gradients: list[float]) -> list[torch.nn.Parameter]:
    found = [torch.nn.Parameter(torch.zeros(len(each))) for each in gradients]
    for weight, gradient in zip(found, gradients, strict=True):
        weight.grad = torch.tensor(gradient)
    return found


def gradients_of(found: list[torch.nn.Parameter]) -> list[float]:
    return [float(number) for weight in found for number in weight.grad]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("most", "scale", "expected"),
    [
        (1.0, None, [0.0, 3 / 13, 4 / 13, 12 / 13]),
        (13.0, None, [0.0, 3.0, 4.0, 12.0]),
        (2.0, 4.0, [0.0, 24 / 13, 32 / 13, 96 / 13]),  # four times those of a gradient of norm 13 / 4
    ],
)
def test_a_longer_gradient_is_scaled_to_the_norm(most: float, scale: float | None, expected: list[float]) -> None:
    found = weights([0.0, 3.0], [4.0, 12.0])
    Clipping(torch.optim.AdamW(found), most).clip(None if scale is None else torch.tensor(scale))
    assert gradients_of(found) == pytest.approx(expected, rel=1e-6)


def test_the_norm_is_of_all_shards_and_what_all_have_counts_once() -> None:
    found = weights([3.0], [4.0])
    clipping = Clipping(torch.optim.AdamW(found), 1.0)

    def total(numbers: torch.Tensor) -> None:
        numbers.add_(16.0)  # the other rank counts its copy of the first tensor, here left out

    clipping.shards = Shards(total, frozenset(found[:1]))
    clipping.clip(None)
    assert gradients_of(found) == pytest.approx([3 / 32**0.5, 4 / 32**0.5], rel=1e-6)


def step(*means: list[float]) -> Iterator[Tensor]:
    """A step whose mean gradients are these."""
    for number, mean in enumerate(means):
        vector = np.array(mean)
        yield Tensor(f"t{number}", FP32, True, vector, vector, {}, vector, vector, 1.0, 2.0, 0.5)


def test_a_replayed_gradient_is_scaled_with_its_errors() -> None:
    means = ([0.0, 3.0], [4.0, 12.0])
    first, second = clipped(lambda: step(*means), 1.3, 0.0, MPI.COMM_SELF)
    assert first.mean == pytest.approx([0.0, 0.3]) and second.local_gradient == pytest.approx([0.4, 1.2])
    assert (first.spread, first.size) == pytest.approx((0.1, 0.2))
    uncertain = 0.5**0.5 / 13  # of the norm: two tensors with an error of a half
    assert second.sent_error == pytest.approx(0.1 * (0.5 + uncertain * 160**0.5))
    assert [t.mean.tolist() for t in clipped(lambda: step(*means), 0.0, 0.0, MPI.COMM_SELF)] == [*means]
    same = [*clipped(lambda: step(*means), 20.0, 0.0, MPI.COMM_SELF)]
    assert [t.sent_error for t in same] == [0.5, 0.5] and [t.mean.tolist() for t in same] == [*means]
    infinite = [*clipped(lambda: step([np.inf], [1.0]), 1.0, 0.0, MPI.COMM_SELF)]
    assert infinite[1].mean.tolist() == [1.0]

"""Times of parts of a network in a step: each part's time includes its own forward and backward passes only."""

import time
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import Function

from hpcai.train.layer_timer import BACKWARD, FORWARD, LayerTimer

CPU = torch.device("cpu")
NAP = 0.08  # seconds, far more than waking up takes on a busy machine


class Slow(Function):
    """The identity, which sleeps the given numbers of naps forward and backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, forward: int, backward: int) -> Tensor:
        ctx.naps = backward
        time.sleep(forward * NAP)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        time.sleep(ctx.naps * NAP)
        return gradients[0], None, None


def slow(forward: int, backward: int) -> Any:
    return lambda x: Slow.apply(x, forward, backward)


def named(name: str) -> Any:
    return lambda *inputs: name


def naps(timer: LayerTimer) -> dict[Any, int]:
    return {where: int(seconds / NAP) for where, seconds in timer.seconds().items()}


def test_each_parts_time_is_that_of_its_own_passes() -> None:
    timer, x = LayerTimer(CPU), torch.ones(3, requires_grad=True)
    y = timer.timed(named("one"), slow(1, 3), x)
    y = slow(5, 5)(y)  # of no part
    y = timer.timed(named("other"), slow(2, 0), y)
    y = timer.timed(named("one"), slow(1, 1), y)
    y.sum().backward()
    assert naps(timer) == {(FORWARD, "one"): 2, (BACKWARD, "one"): 4, (FORWARD, "other"): 2, (BACKWARD, "other"): 0}
    assert timer.seconds() == {}


def test_other_readers_of_an_input_are_not_timed() -> None:
    """A sum written over one of its inputs, as in networks: only the sum's own node is timed."""
    timer, x = LayerTimer(CPU), torch.ones(3, requires_grad=True)
    branch, shortcut = slow(0, 2)(x), slow(0, 3)(x)
    y = timer.timed(named("sum"), lambda one, two: one.add_(two), branch, shortcut)
    y = timer.timed(named("after"), torch.relu_, y)
    (y.sum() + shortcut.sum()).backward()
    assert set(naps(timer).values()) == {0}


def test_a_part_of_several_nodes_is_timed_completely() -> None:
    timer, x = LayerTimer(CPU), torch.ones(3, requires_grad=True)
    timer.timed(named("part"), lambda x: slow(0, 1)(slow(0, 2)(x)) + slow(0, 3)(x), x).sum().backward()
    assert naps(timer)[BACKWARD, "part"] == 6


def test_timing_does_not_change_gradients() -> None:
    timer, layer = LayerTimer(CPU), torch.nn.Linear(4, 3)
    x = torch.randn(2, 4, requires_grad=True)
    right = torch.autograd.grad(layer(x).square().sum(), [x, *layer.parameters()])
    y = timer.timed(named("layer"), layer, x)
    for own, other in zip(torch.autograd.grad(y.square().sum(), [x, *layer.parameters()]), right, strict=True):
        assert torch.equal(own, other)
    assert set(timer.seconds()) == {(FORWARD, "layer"), (BACKWARD, "layer")}


def test_timing_uses_the_events_of_a_gpu() -> None:
    if not torch.cuda.is_available():
        pytest.skip("NO GPU: parts of a step were not timed by events")
    device = torch.device("cuda")
    timer, x = LayerTimer(device), torch.randn(1024, 1024, device=device, requires_grad=True)
    timer.timed(named("product"), lambda x: x @ x, x).sum().backward()
    torch.cuda.synchronize()
    assert all(0 < seconds < 1 for seconds in timer.seconds().values())

"""The sums that products take for the batch norms beside them: where they are used, and where they must not be."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from test_joined_layers import assert_close, images, pair, step
from torch import Tensor

from hpcai.kernels.cpu.epilogue import NONE
from hpcai.kernels.operators import normalisation, on_cpu, products
from hpcai.kernels.operators.norm_workspace import NormWorkspace
from hpcai.kernels.spec import FORWARD
from hpcai.models.joined_layers import JoinedSteps
from hpcai.models.module import Network

NORMS = 9  # of resnet8
FAR = 1000.0  # mean of images that are far from 0, in standard deviations


@pytest.fixture
def summed(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[bool]]:
    """Whether the sums of each batch norm were taken, in the order of the passes."""
    found: dict[str, list[bool]] = {"forward": [], "backward": []}
    for name, method in (("forward", "for_forward"), ("backward", "for_backward")):
        genuine: Callable[..., Any] = getattr(NormWorkspace, method)

        def spied(self: NormWorkspace, given: Any, genuine: Any = genuine, name: str = name) -> Any:
            kept = genuine(self, given)
            found[name].append(kept.summed)
            return kept

        monkeypatch.setattr(NormWorkspace, method, spied)
    return found


def first_blocks(network: Network) -> list[JoinedSteps]:
    """The first layer, and the block behind it, which adds its input."""
    return [function for _, function, *_ in network.steps if isinstance(function, JoinedSteps)][:2]


def gradients(network: Network, between: Callable[[Tensor], Any]) -> list[Tensor]:
    """The gradients of two blocks; `between` is told what the first has made."""
    first, second = first_blocks(network)
    y = first(images())
    between(y)
    loss_of(y, second(y), between).backward()
    return [parameter.grad for parameter in network.parameters() if parameter.grad is not None]


def loss_of(y: Tensor, z: Tensor, between: Callable[[Tensor], Any]) -> Tensor:
    return weighted(z) + weighted(y).mul(0.1) if between is used_twice else weighted(z)


def weighted(y: Tensor) -> Tensor:
    return (y * torch.linspace(-1, 1, y.numel()).view(y.shape)).sum()


def used_twice(y: Tensor) -> None:
    """Autograd adds the gradients of two uses."""


def undisturbed(y: Tensor) -> None:
    pass


def doubled(y: Tensor) -> None:
    y.register_hook(lambda g: g * 2)


def doubled_in_place(y: Tensor) -> None:
    y.register_hook(lambda g: g.mul_(2))


def test_all_sums_are_taken_of_results_and_of_gradients_that_are_products(summed: dict[str, list[bool]]) -> None:
    _, joined = pair("resnet8")
    step(joined, images())
    assert summed["forward"] == [True] * NORMS
    assert len(summed["backward"]) == NORMS
    assert summed["backward"].count(False) == 3  # the last one, and two of shortcuts, whose gradient is a sum's


@pytest.mark.parametrize("between", [undisturbed, doubled, doubled_in_place, used_twice])
def test_a_gradient_that_has_changed_is_summed_again(
    between: Callable[[Tensor], Any], summed: dict[str, list[bool]]
) -> None:
    apart, joined = pair("resnet8")
    right = gradients_apart(apart, between)
    found = gradients(joined, between)
    assert len(found) == len(right)
    for own, other in zip(found, right, strict=True):
        assert_close(own, other)
    assert summed["backward"][-1] == (between is undisturbed)


def gradients_apart(network: Network, between: Callable[[Tensor], Any]) -> list[Tensor]:
    """The same layer by layer."""
    first, second = (block.steps[-1][3] for block in first_blocks(pair("resnet8")[1]))  # the values that they make
    values: dict[int, Any] = {network.steps[0][2][0]: images()}
    for _, function, sources, target, _ in network.steps:
        values[target] = function(*[values[source] for source in sources]) if function is not None else None
        if target == first and sources:
            between(values[first])
        if target == second and sources:
            break
    loss_of(values[first], values[second], between).backward()
    return [parameter.grad for parameter in network.parameters() if parameter.grad is not None]


def test_a_second_backward_pass_has_the_same_gradients() -> None:
    _, joined = pair("resnet8")
    loss = weighted(joined(images()))
    once = torch.autograd.grad(loss, [*joined.parameters()], retain_graph=True)
    for own, other in zip(torch.autograd.grad(loss, [*joined.parameters()]), once, strict=True):
        assert_close(own, other)


@pytest.mark.parametrize(("forward", "backward"), [(1, 2), (2, 1)])
def test_the_number_of_threads_may_change_between_the_passes(forward: int, backward: int) -> None:
    threads = torch.get_num_threads()
    apart, joined = pair("resnet8")
    found = []
    for network in (apart, joined):
        torch.set_num_threads(forward)
        loss = weighted(network(images()))
        torch.set_num_threads(backward)
        found.append(torch.autograd.grad(loss, [*network.parameters()]))
    torch.set_num_threads(threads)
    for own, other in zip(*found, strict=True):
        assert_close(own, other)


def test_sums_that_nobody_has_used_are_not_added_to() -> None:
    """A backward pass that ends between two blocks has taken sums for the first one."""
    network = pair("resnet8")[1]
    right = gradients(pair("resnet8")[1], undisturbed)
    first, second = first_blocks(network)
    y = first(images())
    loss = weighted(second(y))
    torch.autograd.grad(loss, [y], retain_graph=True)
    loss.backward()
    found = [parameter.grad for parameter in network.parameters() if parameter.grad is not None]
    for own, other in zip(found, right, strict=True):
        assert_close(own, other)


@pytest.mark.parametrize(("far", "summed"), [(0.0, True), (FAR, True), (FAR, False)])
def test_moments_of_channels_far_from_0_are_right(far: float, summed: bool) -> None:
    """Sums of squares would lose the variance: of 1000 deviations it is a millionth, and fp32 has seven digits."""
    channels = 32
    x = (torch.randn(8, channels, 12, 12, generator=torch.Generator().manual_seed(2)) + far).contiguous(
        memory_format=torch.channels_last
    )
    w = torch.eye(channels)[:, :, None, None].contiguous(memory_format=torch.channels_last)
    shape = products.shape_of(x.shape, w.shape, (1, 1), (0, 0), (1, 1), 1)
    workspace, c = NormWorkspace(np.float32, channels), torch.empty_like(x)
    on_cpu.convolve(FORWARD, x, w, c, shape, workspace.moments() if summed else NONE)
    assert torch.equal(c, x)
    vectors = torch.ones(channels), torch.zeros(channels)
    y, mean, variance = normalisation.forward(c, None, *vectors, 0.0, False, None, kept=workspace.for_forward(summed))
    right = x.double()
    torch.testing.assert_close(mean.double(), right.mean((0, 2, 3)), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(variance.double(), right.var((0, 2, 3), correction=0), rtol=1e-4, atol=0)
    assert y.mean((0, 2, 3)).abs().max() < 1e-3

"""The sums that products take for the batch norms beside them: where they are used, and where they must not be."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from test_joined_layers import assert_close, images, pair, step
from torch import Tensor, nn

from hpcai.kernels.batch_norm import numba_cpu as batch_norm
from hpcai.kernels.cpu.program import Address
from hpcai.kernels.operators.block_function import LastNorm
from hpcai.kernels.operators.block_plan import Layer
from hpcai.kernels.operators.blocks import Block
from hpcai.models.joined_layers import JoinedSteps
from hpcai.models.module import Network

FAR = 1000.0  # mean of images that are far from 0, in standard deviations


@pytest.fixture
def between_blocks(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the sums of each block's last batch norm were taken by the block behind it, in the backward pass."""
    found: list[bool] = []
    genuine: Callable[..., bool] = LastNorm.summed

    def spied(self: LastNorm, gradient: Tensor) -> bool:
        found.append(genuine(self, gradient))
        return found[-1]

    monkeypatch.setattr(LastNorm, "summed", spied)
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


def test_sums_of_gradients_that_are_products_are_taken(
    between_blocks: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    within = []
    genuine = batch_norm.backward_words

    def spied(plan: Any, relu: bool, memory: Any, summed: Any, *rest: Any) -> Any:
        within.append(summed)
        return genuine(plan, relu, memory, summed, *rest)

    monkeypatch.setattr(batch_norm, "backward_words", spied)
    _, joined = pair("resnet8")
    for _ in range(2):
        step(joined, images())
    assert between_blocks == [False, True, True, True] * 2
    written = [summed for summed in within if not isinstance(summed, Address)]
    assert 2 * written.count(1) == 3 * written.count(0) > 0  # three inner ones; two of shortcuts, which are added


@pytest.mark.parametrize("between", [undisturbed, doubled, doubled_in_place, used_twice])
def test_a_gradient_that_has_changed_is_summed_again(
    between: Callable[[Tensor], Any], between_blocks: list[bool]
) -> None:
    apart, joined = pair("resnet8")
    right = gradients_apart(apart, between)
    found = gradients(joined, between)
    assert len(found) == len(right)
    for own, other in zip(found, right, strict=True):
        assert_close(own, other)
    assert between_blocks == [False, between is undisturbed]


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


@pytest.mark.parametrize("far", [0.0, FAR])
def test_moments_of_channels_far_from_0_are_right(far: float) -> None:
    """Sums of squares would lose the variance: of 1000 deviations it is a millionth, and fp32 has seven digits."""
    channels = 32
    x = (torch.randn(8, channels, 12, 12, generator=torch.Generator().manual_seed(2)) + far).contiguous(
        memory_format=torch.channels_last
    )
    convolution, norm = nn.Conv2d(channels, channels, 1, bias=False), nn.BatchNorm2d(channels, momentum=1.0)
    with torch.no_grad():
        convolution.weight.copy_(torch.eye(channels)[:, :, None, None])
    block = Block([Layer(convolution, norm, False, 0, None)], [lambda size: True])
    assert block.applies(x)
    y, right = block(x), x.double()
    assert norm.running_mean is not None and norm.running_var is not None
    torch.testing.assert_close(norm.running_mean.double(), right.mean((0, 2, 3)), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(norm.running_var.double(), right.var((0, 2, 3)), rtol=1e-4, atol=0)
    assert y.mean((0, 2, 3)).abs().max() < 1e-3

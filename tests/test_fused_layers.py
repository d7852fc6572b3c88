"""Batch norm computed with what follows: the same network, its steps at their places, and where there is no kernel."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from sampled_parameters import one_in
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.profiler import profile

from hpcai import networks
from hpcai.kernels.cpu.simd import lanes
from hpcai.models import fused_layers
from hpcai.models.fused_layers import fuse
from hpcai.models.module import Network, build
from hpcai.networks.execution_plan import execution_plan, fused_groups
from hpcai.networks.layers import Add, BatchNorm, Conv, Relu
from hpcai.train.providers import use_custom

GRAPHS = {name: networks.build(name, (20, 20), 3, 10) for name in ("resnet14", "resnet18", "resnet50")}


def pair(name: str, dtype: torch.dtype = torch.float64) -> tuple[Network, Network]:
    """A network in its usual form, and a copy for our kernels."""
    network = build(GRAPHS[name], 3).to(dtype).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network, deepcopy(network)


def images(dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(4, 3, 20, 20, generator=torch.Generator().manual_seed(1)).to(dtype)


def gradients(network: nn.Module, x: Tensor) -> list[Tensor]:
    loss = cross_entropy(network(x), torch.arange(len(x)))
    return [loss, *torch.autograd.grad(loss, list(network.parameters()))]


@pytest.mark.parametrize("take", one_in(2, [fuse, use_custom]), ids=["fused", "all ours"])
@pytest.mark.parametrize("name", one_in(3, GRAPHS))
def test_a_step_is_the_same(name: str, take: Any) -> None:
    plain, other = pair(name)
    take(other)
    for own, right in zip(gradients(other, images()), gradients(plain, images()), strict=True):
        torch.testing.assert_close(own, right, rtol=1e-7, atol=1e-9)
    for own, right in zip(other.state_dict().values(), plain.state_dict().values(), strict=True):
        torch.testing.assert_close(own, right, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
def test_judging_is_the_same_with_gradients_and_without(name: str) -> None:
    plain, other = pair(name)
    use_custom(other)
    for network in (plain, other):
        gradients(network, images())  # statistics that are not the first ones
        network.eval()
    right = plain(images())
    torch.testing.assert_close(other(images()), right)
    with torch.inference_mode():
        torch.testing.assert_close(other(images()), right)


SPREAD = [4, 512, 3, 3]  # over whose pixels the gradient of their mean is spread, once


def copied(network: Network, x: Tensor) -> list[Any]:
    """Sizes of the pictures that were copied in a step, whatever their layout."""
    gradients(network, x)  # what is made once
    with profile(record_shapes=True) as record:
        gradients(network, x)
    sizes = [event.input_shapes[0] for event in record.events() if event.name == "aten::copy_"]
    return [size for size in sizes if len(size) == 4 and size[0] == len(x)]


@pytest.mark.parametrize("take", one_in(2, [fuse, use_custom]), ids=["fused", "all ours"])
def test_the_channels_stay_last_throughout_a_step(take: Any) -> None:
    """No picture is copied, hence none turned; one whose channels come first is seen."""
    _, network = pair("resnet18", torch.float32)
    take(network)
    x = images(torch.float32).contiguous(memory_format=torch.channels_last)
    assert copied(network, x) == [SPREAD]
    name, _, *rest = network.steps[3]
    turning: Any = lambda x: network.get_submodule(name)(x.contiguous())  # noqa: E731, a step of a network
    network.steps[3] = (name, turning, *rest)  # type: ignore[assignment]
    assert len(copied(network, x)) > 1


def test_a_deep_copy_computes_with_its_own_layers() -> None:
    _, other = pair("resnet14")
    use_custom(other)
    copy = deepcopy(other)
    for parameter in copy.parameters():
        nn.init.zeros_(parameter)
    assert copy(images()).abs().max() == 0 < other(images()).abs().max()


def test_groups_take_in_the_sum_and_the_relu_of_what_nobody_else_reads() -> None:
    steps = execution_plan(GRAPHS["resnet18"])
    groups = list(fused_groups(steps))
    assert [step for group in groups for step in group] == list(steps)
    kinds = [tuple(type(step.layer.op) for step in group) for group in groups]
    assert kinds.count((BatchNorm, Add, Relu)) == 8  # two of each of four stages
    assert kinds.count((BatchNorm, Relu)) == 9  # the first layer's, and the first of each block
    assert kinds.count((BatchNorm,)) == 3  # shortcuts that change the size, unless they come last
    assert (Conv,) in kinds and (Relu,) not in kinds


def test_steps_keep_their_places_and_drop_what_is_dead() -> None:
    _, other = pair("resnet18")
    before = [(target, sorted(frees)) for _, _, _, target, frees in other.steps]
    fuse(other)
    assert [target for _, _, _, target, _ in other.steps] == [target for target, _ in before]
    made = {target for _, function, _, target, _ in other.steps if function is fused_layers._no_op}
    dead = sorted(place for _, _, _, _, frees in other.steps for place in frees)
    assert dead == sorted(place for _, frees in before for place in frees if place not in made)


@pytest.mark.parametrize("case", ["bfloat16", "channels"])
def test_where_there_is_no_kernel_torch_computes_one_after_the_other(case: str) -> None:
    dtype = torch.bfloat16 if case == "bfloat16" else torch.float32
    part = nn.BatchNorm2d(lanes(4) + (case == "channels")).to(dtype)
    network, _ = pair("resnet14")
    fuse(network)
    function: Any = next(function for _, function, _, _, _ in network.steps if hasattr(function, "func"))
    x = torch.randn(2, part.num_features, 3, 3).to(dtype)
    right = torch.relu(deepcopy(part)(x))
    assert torch.equal(function.func(part, True, x), right)
    assert part.num_batches_tracked is not None and part.num_batches_tracked.item() == 1

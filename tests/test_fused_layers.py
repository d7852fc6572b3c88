"""Batch norm fused with the following operations: the same network, its steps at their places, missing kernels."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.profiler import profile

from hpcai import networks
from hpcai.kernels.cpu.simd import lanes
from hpcai.models import fused_layers
from hpcai.models.fused_layers import fuse
from hpcai.models.joined_layers import separate
from hpcai.models.module import Network, build
from hpcai.networks.execution_plan import execution_plan, fused_groups
from hpcai.networks.layers import Add, BatchNorm, Conv, Relu
from hpcai.train.providers import use_custom

pytestmark = pytest.mark.slow

GRAPHS = {name: networks.build(name, (20, 20), 3, 10) for name in ("resnet14", "resnet18", "resnet50")}


def pair(name: str, dtype: torch.dtype = torch.float64) -> tuple[Network, Network]:
    """A network in its usual form, and a copy for the custom kernels."""
    network = build(GRAPHS[name], 3).to(dtype).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network, deepcopy(network)


def images(dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(4, 3, 20, 20, generator=torch.Generator().manual_seed(1)).to(dtype)


def gradients(network: nn.Module, x: Tensor) -> list[Tensor]:
    loss = cross_entropy(network(x), torch.arange(len(x)))
    return [loss, *torch.autograd.grad(loss, list(network.parameters()))]


@pytest.mark.parametrize("take", [fuse, use_custom], ids=["fused", "all custom"])
@pytest.mark.parametrize("name", GRAPHS)
def test_a_step_is_the_same(name: str, take: Any) -> None:
    plain, other = pair(name)
    take(other)
    for own, right in zip(gradients(other, images()), gradients(plain, images()), strict=True):
        torch.testing.assert_close(own, right, rtol=1e-7, atol=1e-9)
    for own, right in zip(other.state_dict().values(), plain.state_dict().values(), strict=True):
        torch.testing.assert_close(own, right, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", GRAPHS)
def test_evaluation_is_the_same_with_gradients_and_without(name: str) -> None:
    plain, other = pair(name)
    use_custom(other)
    for network in (plain, other):
        gradients(network, images())  # statistics that are not the initial ones
        network.eval()
    right = plain(images())
    torch.testing.assert_close(other(images()), right)
    with torch.inference_mode():
        torch.testing.assert_close(other(images()), right)


SPREAD = [4, 512, 3, 3]  # the gradient of the mean is spread over their pixels, once


def copied(network: Network, x: Tensor) -> list[Any]:
    """Sizes of the images that were copied in a step, whatever their layout."""
    gradients(network, x)  # the first step allocates
    with profile(record_shapes=True) as record:
        gradients(network, x)
    sizes = [event.input_shapes[0] for event in record.events() if event.name == "aten::copy_"]
    return [size for size in sizes if len(size) == 4 and size[0] == len(x)]


def apart(network: Network) -> None:
    """All custom, layer by layer."""
    use_custom(network)
    separate(network)


@pytest.mark.parametrize("take", [fuse, apart], ids=["fused", "all custom"])
def test_the_channels_stay_last_throughout_a_step(take: Any) -> None:
    """No image is copied, hence none transposed; one whose channels come first is detected."""
    _, network = pair("resnet18", torch.float32)
    take(network)
    x = images(torch.float32).contiguous(memory_format=torch.channels_last)
    assert copied(network, x) == [SPREAD]
    name, _, *rest = network.steps[3]
    with_channels_first: Any = lambda x: network.get_submodule(name)(x.contiguous())  # noqa: E731, a step of a network
    network.steps[3] = (name, with_channels_first, *rest)  # type: ignore[assignment]
    assert len(copied(network, x)) > 1


def test_a_deep_copy_computes_with_its_own_layers() -> None:
    _, other = pair("resnet14")
    use_custom(other)
    copy = deepcopy(other)
    for parameter in copy.parameters():
        nn.init.zeros_(parameter)
    assert copy(images()).abs().max() == 0 < other(images()).abs().max()


def test_groups_include_a_sum_and_relu_that_are_the_only_readers() -> None:
    steps = execution_plan(GRAPHS["resnet18"])
    groups = list(fused_groups(steps))
    assert [step for group in groups for step in group] == list(steps)
    kinds = [tuple(type(step.layer.op) for step in group) for group in groups]
    assert kinds.count((BatchNorm, Add, Relu)) == 8  # two of each of four stages
    assert kinds.count((BatchNorm, Relu)) == 9  # the first layer's, and the first of each block
    assert kinds.count((BatchNorm,)) == 3  # shortcuts that change the size, unless they come last
    assert (Conv,) in kinds and (Relu,) not in kinds


def test_steps_keep_their_places_and_free_dead_outputs() -> None:
    _, other = pair("resnet18")
    before = [(target, sorted(frees)) for _, _, _, target, frees in other.steps]
    fuse(other)
    assert [target for _, _, _, target, _ in other.steps] == [target for target, _ in before]
    made = {target for _, function, _, target, _ in other.steps if function is fused_layers.no_op}
    dead = sorted(place for _, _, _, _, frees in other.steps for place in frees)
    assert dead == sorted(place for _, frees in before for place in frees if place not in made)


@pytest.mark.parametrize("case", ["bfloat16", "channels"])
def test_torch_computes_separate_operations_if_there_is_no_kernel(case: str) -> None:
    dtype = torch.bfloat16 if case == "bfloat16" else torch.float32
    part = nn.BatchNorm2d(lanes(4) + (case == "channels")).to(dtype)
    network, _ = pair("resnet14")
    fuse(network)
    function: Any = next(function for _, function, _, _, _ in network.steps if hasattr(function, "func"))
    x = torch.randn(2, part.num_features, 3, 3).to(dtype)
    right = torch.relu(deepcopy(part)(x))
    assert torch.equal(function.func(part, True, x), right)
    assert part.num_batches_tracked is not None and part.num_batches_tracked.item() == 1

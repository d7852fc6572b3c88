"""Residual blocks as one function: the same as layer by layer but for rounding, and what keeps the layers apart."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import pytest
import torch
from joined_networks import BATCH, BLOCKS, GRAPHS, clear_seed, images, pair, step
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.profiler import profile

from hpcai.kernels.operators import blocks, products
from hpcai.kernels.spec import DIRECTIONS, FORWARD
from hpcai.models.joined_layers import JoinedSteps
from hpcai.models.module import Network, build
from hpcai.train.providers import Choice, use_custom, use_vendor

SLOW = pytest.mark.slow
# Of the largest number of a tensor. In fp32 resnet50, which ends in batch norms over four numbers, has larger ones.
ROUNDING = {torch.float32: 1e-4, torch.float64: 1e-11}


@pytest.fixture(autouse=True)
def some_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def assert_close(own: Tensor, right: Tensor) -> None:
    assert own.dtype == right.dtype and own.shape == right.shape
    assert (own - right).abs().max() <= ROUNDING.get(own.dtype, 0) * right.abs().max()


def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by the number of layers of each block that is computed as one."""
    found: list[int] = []
    genuine: Callable[..., Tensor] = blocks.Block.__call__

    def counted(self: blocks.Block, x: Tensor) -> Tensor:
        found.append(len(self.layers))
        return genuine(self, x)

    monkeypatch.setattr(blocks.Block, "__call__", counted)
    return found


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.float64, marks=SLOW)], ids=["fp32", "fp64"])
@pytest.mark.parametrize("name", [pytest.param(name, marks=[SLOW] * (name != "resnet8")) for name in GRAPHS])
def test_a_step_is_the_same(name: str, dtype: torch.dtype, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dtype = torch.float64 if name == "resnet50" else dtype
    torch.set_num_threads(threads)
    apart, joined = pair(name, dtype)
    found = calls(monkeypatch)
    x = images(dtype, clear_seed(name))
    right = step(apart, x)
    assert not found
    for own, other in zip(step(joined, x), right, strict=True):
        assert_close(own, other)
    assert len(found) == BLOCKS[name] and sum(found) == sum(isinstance(part, nn.Conv2d) for part in joined.modules())


def test_the_gradient_of_the_images_is_the_same() -> None:
    apart, joined = pair("resnet8")
    for own, other in zip(step(joined, images().requires_grad_()), step(apart, images().requires_grad_()), strict=True):
        assert_close(own, other)


def test_frozen_weights_have_no_gradient() -> None:
    apart, joined = pair("resnet8")
    for network in (apart, joined):
        for number, parameter in enumerate(network.parameters()):
            parameter.requires_grad_(number % 2 == 0)
        cross_entropy(network(images()), torch.arange(BATCH)).backward()
    for own, other in zip(joined.parameters(), apart.parameters(), strict=True):
        assert (own.grad is None) == (other.grad is None) == (not own.requires_grad)
        assert own.grad is None or other.grad is None or assert_close(own.grad, other.grad) is None


def test_a_weight_that_changes_before_the_gradients_is_refused() -> None:
    joined = pair("resnet8")[1]
    loss = cross_entropy(joined(images()), torch.arange(BATCH))
    with torch.no_grad():
        next(joined.parameters()).add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@contextmanager
def hooked(network: Network) -> Iterator[None]:
    hooks = [part.register_forward_hook(lambda *_: None) for part in network.modules() if isinstance(part, nn.Conv2d)]
    yield
    for hook in hooks:
        hook.remove()


@contextmanager
def evaluating(network: Network) -> Iterator[None]:
    network.eval()
    yield
    network.train()


def by_site(direction: str, one: Tensor, other: Tensor, result: Tensor, shape: Any) -> None:
    products._backend("cpu").convolve(direction, one, other, result, shape)


APART: dict[str, Callable[[Network], Any]] = {
    "a hook": hooked,
    "evaluation": evaluating,
    "no gradients": lambda network: torch.no_grad(),
    "a profiler": lambda network: profile(),
    "kernels of the site": lambda network: products.replaced({"convolve": by_site}),
    "autocast": lambda network: torch.autocast("cpu", torch.bfloat16),
}


@pytest.mark.parametrize("why", APART)
def test_layers_are_computed_one_by_one(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    apart, joined = pair("resnet8")
    found = calls(monkeypatch)
    with APART[why](joined):
        y = joined(images())
    assert not found
    with APART[why](apart):
        assert torch.equal(y, apart(images()))
    joined(images())
    assert len(found) == BLOCKS["resnet8"]


def test_other_types_are_computed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    apart, joined = pair("resnet8", torch.bfloat16)
    found = calls(monkeypatch)
    assert torch.equal(joined(images(torch.bfloat16)), apart(images(torch.bfloat16))) and not found


@pytest.mark.parametrize("custom", [{FORWARD}, {*DIRECTIONS}], ids=["some", "all"])
def test_blocks_whose_products_are_all_custom_are_joined(custom: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    network = build(GRAPHS["resnet8"], 3).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    sizes: dict[str, tuple[int, ...]] = {}
    for name, part in network.named_modules():
        if isinstance(part, nn.Conv2d):
            part.register_forward_pre_hook(lambda _, x, name=name: sizes.update({name: tuple(x[0].shape[1:])}))
    right = network(images())
    for part in network.modules():
        part._forward_pre_hooks.clear()
    first = next(iter(sizes))
    directions = {name: {size: custom if name == first else {*DIRECTIONS}} for name, size in sizes.items()}
    use_custom(network, Choice(directions, [step.layer.name for step in network.plan]))
    found = calls(monkeypatch)
    torch.testing.assert_close(network(images()), right, rtol=1e-4, atol=1e-4)
    assert len(found) == BLOCKS["resnet8"] - (custom == {FORWARD})


def test_a_deep_copy_computes_with_its_own_layers() -> None:
    _, joined = pair("resnet8")
    copy = deepcopy(joined)
    for parameter in copy.parameters():
        nn.init.zeros_(parameter)
    assert copy(images()).abs().max() == 0 < joined(images()).abs().max()


def test_steps_keep_their_places_and_free_dead_outputs() -> None:
    apart, joined = pair("resnet18")
    assert [step[3] for step in joined.steps] == [step[3] for step in apart.steps]
    made = {step[3] for step in joined.steps if not step[2]}
    dead = sorted(place for step in joined.steps for place in step[4])
    assert dead == sorted(place for step in apart.steps for place in step[4] if place not in made)
    use_vendor(joined)
    assert not [step for step in joined.steps if isinstance(step[1], JoinedSteps)]


def test_nothing_is_kept_that_the_gradients_do_not_read() -> None:
    """A result that no layer reads again may be overwritten after the block."""
    _, joined = pair("resnet8")
    first = next(step[1] for step in joined.steps if isinstance(step[1], JoinedSteps))
    y = first(images())
    with torch.no_grad():
        y.mul_(2)
    y.sum().backward()


def saved(network: nn.Module) -> int:
    """Bytes that the graph of a step keeps, each tensor once."""
    found: dict[int, int] = {}
    with torch.autograd.graph.saved_tensors_hooks(lambda x: found.update({x.data_ptr(): x.nbytes}) or x, lambda x: x):
        network(images())
    return sum(found.values())


def test_a_step_keeps_what_it_keeps_layer_by_layer() -> None:
    """The moments are in the workspaces of the blocks."""
    apart, joined = pair("resnet18")
    moments = sum(2 * part.weight.nbytes for part in joined.modules() if isinstance(part, nn.BatchNorm2d))
    assert saved(joined) == saved(apart) - moments


@pytest.mark.parametrize("threads", [1, 2])
def test_memory_between_steps_stays_constant(threads: int) -> None:
    """The graph of a step is freed with it."""
    torch.set_num_threads(threads)
    _, joined = pair("resnet8")
    counts = []
    for _ in range(3):
        step(joined, images())
        gc.collect()
        counts.append(sum(isinstance(each, Tensor) for each in gc.get_objects()))
    assert counts[1] == counts[2]


def test_without_a_block_nothing_is_joined() -> None:
    use_custom(network := build(GRAPHS["resnet8"], 3), Choice({}, ()))
    assert not [step for step in network.steps if isinstance(step[1], JoinedSteps)]


def test_the_images_may_have_any_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    apart, joined = pair("resnet8")
    found, x = calls(monkeypatch), images().contiguous()
    for own, other in zip(step(joined, x), step(apart, x), strict=True):
        assert_close(own, other)
    assert len(found) == BLOCKS["resnet8"]

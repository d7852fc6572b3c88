"""Convolutions fused with the following operations in evaluation: only where the kernels are custom."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from test_evaluating import LAYERS, layers
from torch import Tensor

from hpcai import networks
from hpcai.kernels.conv2d import Shape
from hpcai.kernels.operators import products
from hpcai.kernels.spec import DIRECTIONS, WEIGHT_GRADIENT
from hpcai.models import fused_layers
from hpcai.models.module import Network, build
from hpcai.networks.layers import BatchNorm, Conv
from hpcai.preflight.layer_sites import survey
from hpcai.train.providers import Choice, use_custom, use_vendor

SIZE = (20, 20)


def network(name: str = "resnet18", dtype: torch.dtype = torch.float32) -> Network:
    made = build(networks.build(name, SIZE, 3, 10), 3).to(dtype).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    x = images(dtype)
    made.train()(x)  # statistics that are not the initial ones
    trained: Network = made.eval()
    return trained


def images(dtype: torch.dtype = torch.float32) -> Tensor:
    drawn = torch.randn(4, 3, *SIZE, generator=torch.Generator().manual_seed(1)).to(dtype)
    return drawn.contiguous(memory_format=torch.channels_last)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Shape]:
    """Layers that were computed by the fused kernel, in their order."""
    genuine, shapes = products.convolution_normalised, []

    def noted(x: Tensor, w: Tensor, *rest: Any) -> Tensor:
        shapes.append((tuple(x.shape), tuple(w.shape)))
        return genuine(x, w, *rest)

    monkeypatch.setattr(products, "convolution_normalised", noted)
    return shapes


def convolutions(of: Network) -> int:
    """The convolutions that a batch norm follows."""
    following = zip(of.plan, of.plan[1:], strict=False)
    return sum(isinstance(a.layer.op, Conv) and isinstance(b.layer.op, BatchNorm) for a, b in following)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet14", "resnet18", "resnet50"])
@torch.inference_mode()
def test_evaluation_fuses_all_convolutions(name: str, made: list[Shape]) -> None:
    own = network(name, torch.float64)
    right = own(images(torch.float64))
    use_custom(own)
    torch.testing.assert_close(own(images(torch.float64)), right)
    assert len(made) == convolutions(own) > 12
    use_vendor(own)
    assert torch.equal(own(images(torch.float64)), right) and len(made) == convolutions(own)


@pytest.mark.slow
def test_convolutions_are_not_fused_with_gradients_or_in_training(made: list[Shape]) -> None:
    own = network()
    use_custom(own)
    own(images()).sum().backward()
    with torch.inference_mode():
        own.train()(images())
    assert made == []


@pytest.mark.slow
def test_a_deep_copy_computes_with_its_own_layers(made: list[Shape]) -> None:
    own = network()
    use_custom(own)
    copy = deepcopy(own)
    with torch.inference_mode():
        for each in copy.parameters():
            each.zero_()
        assert copy(images()).abs().max() == 0 < own(images()).abs().max()
    assert made


@pytest.mark.parametrize(
    "custom_directions",
    [(WEIGHT_GRADIENT,), pytest.param(DIRECTIONS, marks=pytest.mark.slow)],
    ids=["weight gradient", "all directions"],
)
def test_only_custom_convolutions_are_deferred(custom_directions: tuple[str, ...], made: list[Shape]) -> None:
    own = network()
    right = own(images())
    places = survey(own, lambda: own(images()))
    products: Any = {name: {size: custom_directions} for name, size in places.products}
    use_custom(own, Choice(products, [step.layer.name for step in own.plan]))
    with torch.inference_mode():
        torch.testing.assert_close(own(images()), right, rtol=1e-4, atol=1e-4)
    assert len(made) == (convolutions(own) if custom_directions == DIRECTIONS else 0)


@pytest.mark.slow
def test_convolutions_are_not_deferred_for_the_vendors_batch_norms(made: list[Shape]) -> None:
    own = network()
    products: Any = {name: {size: DIRECTIONS} for name, size in survey(own, lambda: own(images())).products}
    use_custom(own, Choice(products, ()))
    with torch.inference_mode():
        own(images())
    assert made == []


def test_training_batch_norms_and_sums_of_other_types_are_computed_separately(made: list[Shape]) -> None:
    part, norm, x, other = layers(LAYERS["tiles that slide"], torch.float32)
    with torch.inference_mode():
        right = torch.relu(norm(part(x)).add_(other.double()))
        found = fused_layers.DeferredConvolution(part, x).normalised(norm, True, other.double())
        torch.testing.assert_close(found, right)
        moving = deepcopy(norm).train()
        found = fused_layers.DeferredConvolution(part, x).normalised(moving, False, None)
        torch.testing.assert_close(found, norm.train()(part(x)))
    torch.testing.assert_close(moving.running_var, norm.running_var)
    assert made == []

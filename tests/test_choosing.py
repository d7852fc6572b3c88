"""Layers timed within steps of a network: the slower kernels are never chosen."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import rectangles
import torch
from mpi4py import MPI
from msgspec import structs
from tiny import CPU, GRAPH, bits, training
from tiny import alone as group_alone

from hpcai.inputfile.split import Cut
from hpcai.kernels.layers import spec_of
from hpcai.kernels.operators import on_cpu, products
from hpcai.kernels.spec import DIRECTIONS, FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT
from hpcai.models import fused_layers
from hpcai.models.joined_layers import separate
from hpcai.opcount.products import layers_of
from hpcai.preflight import kernel_choice, residuals, timed_steps
from hpcai.preflight.kernel_choice import Chosen, choose
from hpcai.preflight.layer_products import products as products_of
from hpcai.preflight.layer_sites import survey
from hpcai.record.preflight import WholeStep
from hpcai.train.loop import Training
from hpcai.train.providers import Choice, use_custom, use_vendor

NAP = 0.03  # seconds, far more than a layer takes


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rounds; the first of them compiles."""
    monkeypatch.setattr(timed_steps, "MAX_ROUNDS", 3)


@contextmanager
def slow(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, wanted: Callable[..., bool]) -> Iterator[None]:
    """While the block runs, calls of `owner.name` for which `wanted` is true sleep additionally."""
    true = getattr(owner, name)

    def napping(*arguments: Any) -> Any:
        time.sleep(NAP * wanted(*arguments))
        return true(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, napping)
        yield


def always(*arguments: Any) -> bool:
    return True


def custom(found: Chosen) -> list[set[str]]:
    return [set(entry.custom) for entry in found.measured.products]


def chosen(trained: Training) -> Chosen:
    return choose(trained, MPI.COMM_SELF, CPU)


@pytest.mark.exhaustive
def test_the_networks_products_are_timed_without_touching_the_training() -> None:
    trained = training(group_alone())
    before, forwards = bits(trained.state.module.state_dict()), [vars(part) for part in trained.state.module.modules()]
    found = chosen(trained)
    assert list(found.products) == products_of(GRAPH, 8)
    assert bits(trained.state.module.state_dict()) == before
    assert not any("forward" in each for each in forwards)
    assert all(parameter.grad is None for parameter in trained.state.module.parameters())
    for entry in found.measured.products:
        passes = (structs.asdict(entry.forward), structs.asdict(entry.backward))
        assert all(seconds > 0 for times in passes for seconds in times.values() if seconds is not None)


@pytest.mark.exhaustive
def test_slow_custom_kernels_are_not_chosen_and_no_layer_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = training(group_alone())
    with slow(monkeypatch, on_cpu, "convolve", always), slow(monkeypatch, on_cpu, "multiply", always):
        found = chosen(trained)
    assert custom(found) == [set()] * 4 and not any(found.products.values())
    module: Any = trained.state.module
    use_custom(module, found.choice)
    assert not any("forward" in vars(part) for part in module.modules())
    assert module.steps == list(module.as_planned) or found.choice.normalisations


@pytest.mark.slow
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_custom_kernels_are_chosen_if_the_vendors_are_slow(direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In both operators. If one of the custom gradients is slow, only the other one is chosen."""
    trained = training(group_alone())
    if direction == FORWARD:
        vendors = torch.nn.Conv2d, "_conv_forward"
        with slow(monkeypatch, *vendors, always), slow(monkeypatch, products, "by_torch", always):
            found = chosen(trained)
        assert all(FORWARD in directions for directions in custom(found)[:3])
        return
    other = {INPUT_GRADIENT: WEIGHT_GRADIENT, WEIGHT_GRADIENT: INPUT_GRADIENT}[direction]

    class Napping(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, y: Any) -> Any:
            return y.view_as(y)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            time.sleep(2 * NAP)
            return gradients[0]

    true = torch.nn.Conv2d._conv_forward
    monkeypatch.setattr(torch.nn.Conv2d, "_conv_forward", lambda *given: Napping.apply(true(*given)))
    with (
        slow(monkeypatch, on_cpu, "convolve", lambda way, *rest: way == other),
        slow(monkeypatch, products, "gradients_by_torch", lambda *given: all(given[-1])),
    ):
        found = chosen(trained)
    assert all(direction in directions and other not in directions for directions in custom(found)[1:3])


@pytest.mark.slow
def test_a_choice_that_makes_the_step_slower_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_choice, "_whole", lambda *given: WholeStep(vendor=1.0, chosen=1.01))
    with slow(monkeypatch, torch.nn.Conv2d, "_conv_forward", always):
        found = chosen(training(group_alone()))
    assert any(custom(found))
    assert not any(found.products.values())
    assert not found.choice.products and not found.choice.normalisations


@pytest.mark.slow
def test_a_detectors_surveyed_layers_are_those_of_its_graph() -> None:
    """Its heads are called at several levels, and for regions."""
    module, (x, targets) = rectangles.detector(), rectangles.fields(3, 0)
    places = survey(module, lambda: module(x, targets, 0).sum().backward())
    assert set(places.products.values()) == set(products_of(rectangles.GRAPH, 3))
    called = places.products.values()
    found = Counter((spec_of(shape).name, shape.text(FORWARD), INPUT_GRADIENT in ways) for shape, ways in called)
    assert found == layers_of(rectangles.GRAPH, 3)


@pytest.mark.slow
def test_a_small_set_is_repeated_to_a_full_batch() -> None:
    found = chosen(training(group_alone(), samples=5))
    assert [entry.shape.split()[0] for entry in found.measured.products] == ["n8", "n8", "n8", "m8"]


@pytest.mark.exhaustive
@pytest.mark.parallel(2)
def test_all_ranks_choose_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Custom kernels that are slow on one rank are chosen on no rank."""
    world = MPI.COMM_WORLD
    with slow(monkeypatch, on_cpu, "convolve", lambda *given: world.rank == 1):
        found = choose(training(group_alone()), world, CPU)
    assert world.allgather(found.measured) == [found.measured] * 2
    assert custom(found)[:3] == [set()] * 3


def module_of(choice: Choice | None = None) -> Any:
    module = training(group_alone()).state.module
    use_custom(module, choice)  # type: ignore[arg-type]
    return module


@pytest.mark.slow
def test_only_chosen_products_are_custom_for_inputs_of_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    true = products._convolved
    monkeypatch.setattr(products, "_convolved", lambda way, *rest: made.append((way, rest[2].x)) or true(way, *rest))
    chosen_products = {"stem": {(2, 6, 7): {WEIGHT_GRADIENT}}, "branch": {(4, 1, 1): set(DIRECTIONS)}}
    module = module_of(Choice(chosen_products, {"stem_norm"}))
    assert "forward" not in vars(module.get_submodule("narrow"))
    module(torch.randn(3, 2, 6, 7)).sum().backward()
    assert made == [(WEIGHT_GRADIENT, (3, 2, 6, 7))]
    separate(module)
    functions = [getattr(function, "func", None) for _, function, *_ in module.steps]
    normalised = [function for function in functions if function is fused_layers.computed]
    assert len(normalised) == 1
    use_vendor(module)
    assert module.steps == list(module.as_planned)
    module(torch.randn(3, 2, 6, 7)).sum().backward()
    assert len(made) == 1


@pytest.mark.slow
def test_residuals_are_measured_of_the_chosen_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The custom weight gradient loses an element: this is detected where it is chosen, and only there."""
    true = on_cpu.convolve

    def faulty(direction: str, one: Any, other: Any, result: Any, shape: Any) -> None:
        true(direction, one, other, result, shape)
        if direction == WEIGHT_GRADIENT:
            result[0, 0, 0, 0] = 0

    monkeypatch.setattr(on_cpu, "convolve", faulty)
    for chosen_ways, wrong in (({FORWARD, INPUT_GRADIENT}, False), ({WEIGHT_GRADIENT}, True), ((), False)):
        worst = residuals.worst_residuals(
            GRAPH, Cut(samples=8), MPI.COMM_SELF, CPU, 1, custom=lambda product, chosen_ways=chosen_ways: chosen_ways
        )
        assert (worst.elementwise.value > 1) == wrong
        assert not wrong or "weight_gradient" in worst.elementwise.where

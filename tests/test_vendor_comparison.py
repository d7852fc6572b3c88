"""Training steps by custom kernels, compared with the vendor's: deviations beyond rounding; no lasting effects."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest.mock import patch

import pytest
import torch
from mpi4py import MPI
from msgspec.structs import replace
from tiny import CPU, GRAPH, alone, bits, training
from torch import Tensor

from hpcai import clock
from hpcai.formulas.score import LARGEST
from hpcai.inputfile import Case, parse
from hpcai.kernels.operators import on_cpu
from hpcai.preflight.vendor_comparison import compare_with_vendor
from hpcai.record.preflight import (
    COMPARED_STEPS,
    ComparedLayer,
    ComparedLosses,
    EvaluatedLoss,
    KernelChoice,
    VendorComparison,
    WholeStep,
)
from hpcai.results import vendor_comparison as comparison
from hpcai.train import providers
from hpcai.train.loop import Training


def case(kernels: str = "custom", precision: str = "fp32") -> Case:
    said = "fashion DATASET\n1 GROUPS\n1 DEGREE\n8 BATCH\n0.1 LEARNRATE\n5 EPOCHS\n"
    text = f"a\nb\n[ensemble]\n{said}{kernels} KERNELS\n{precision} PRECISION\n"
    (found,) = parse(text, name="input.dat").cases(1)
    return found


def custom(**settings: Any) -> Training:
    made = training(alone(), **settings)
    providers.use_custom(made.state.module)
    return made


def found(
    made: Training, precision: str = "fp32", fault: AbstractContextManager[Any] | None = None
) -> VendorComparison:
    with fault or nullcontext():
        wanted, phases = case(precision=precision), clock.Phases(CPU)
        measured = compare_with_vendor(wanted, GRAPH, lambda: made, MPI.COMM_SELF, CPU, phases)
    assert measured is not None and phases.seconds.keys() == {"vendor_comparison"}
    return measured


def shares(measured: VendorComparison, precision: str = "fp32") -> list[float]:
    pixels = comparison.pixels(case(), GRAPH, measured.statistics.where)
    return [
        comparison.loss_share(measured),
        comparison.gradient_share(measured.gradient, precision),
        comparison.statistics_share(measured.statistics, pixels),
    ]


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16", "pure16", "halffp16"])
def test_right_kernels_differ_by_rounding(precision: str) -> None:
    measured = found(custom(precision=precision), precision)
    assert max(shares(measured, precision)) <= 1
    assert measured.evaluated is not None
    compared = (measured.losses, measured.evaluated, measured.gradient, measured.statistics)
    assert all(each.rounding > 0 for each in compared)
    assert len(measured.losses.custom) == COMPARED_STEPS
    assert measured.losses.vendor[-1] < measured.losses.vendor[0]  # steps that learn nothing prove nothing


def spoilt(element: float) -> AbstractContextManager[Any]:
    genuine = on_cpu.convolve

    def convolve(direction: str, one: Tensor, other: Tensor, result: Tensor, shape: Any) -> None:
        genuine(direction, one, other, result, shape)
        result[0, 0, 0, 0] = element

    return patch.object(on_cpu, "convolve", convolve)


@pytest.mark.parametrize("element", [1e3, float("nan"), float("inf")])
def test_a_wrong_element_is_detected_and_infinity_is_reported_as_a_number(element: float) -> None:
    measured = found(custom(), fault=spoilt(element))
    assert min(shares(measured)[:2]) > 1
    assert max(measured.losses.custom) <= LARGEST


def test_the_vendors_kernels_are_not_compared_with_themselves() -> None:
    assert compare_with_vendor(case("vendor"), GRAPH, custom, MPI.COMM_SELF, CPU, clock.Phases(CPU)) is None


def test_the_comparison_does_not_change_the_training() -> None:
    made = custom()
    before = bits(made.state.snapshot())
    found(made)
    assert bits(made.state.snapshot()) == before


def test_layers_with_zero_weights_are_not_updated_in_the_compared_steps() -> None:
    """So a detector's proposals do not depend on the order of scores that differ by rounding alone."""
    from hpcai.preflight import vendor_comparison as steps

    made = custom()
    torch.nn.init.zeros_(made.state.module.get_submodule("narrow").weight)
    moving = {id(parameter) for parameter in steps._compared_parameters(made.state.module)}
    still = {name for name, parameter in made.state.module.named_parameters() if id(parameter) not in moving}
    assert still == {"narrow.weight", "narrow.bias"}


def taken(kernels: str) -> list[str]:
    """The functions of the forward methods of layers with products."""
    made = training(alone())
    if kernels != "vendor":
        providers.use_custom(made.state.module)
    if kernels == "given back":
        providers.use_vendor(made.state.module)
    parts = [part for part in made.state.module.modules() if isinstance(part, torch.nn.Conv2d | torch.nn.Linear)]
    steps = [str(getattr(function, "func", function)) for _, function, *_ in made.state.module.steps]
    return [*(type(part.forward).__name__ for part in parts), *steps]


def test_use_vendor_restores_the_layers() -> None:
    assert taken("given back") == taken("vendor") != taken("custom")


def test_use_vendor_restores_results_in_16_bits() -> None:
    made, own = training(alone(), precision="bf16"), custom(precision="bf16")
    providers.use_vendor(own.state.module)
    x = torch.randn(4, 2, 6, 7, generator=torch.Generator().manual_seed(3))
    assert torch.equal(own.state.module(x), made.state.module(x))


@pytest.mark.slow
@pytest.mark.parallel(2)
def test_the_largest_deviation_is_known_on_all_ranks() -> None:
    comm = MPI.COMM_WORLD
    made = custom()
    fault = spoilt(5.0) if comm.rank == 1 else nullcontext()
    with fault:
        measured = compare_with_vendor(case(), GRAPH, lambda: made, comm, CPU, clock.Phases(CPU))
    assert measured is not None
    assert min(shares(measured)[:2]) > 1
    assert comm.bcast(measured) == measured


# --- derived values


LOSSES = ComparedLosses(
    custom=(2.0, 1.5, 1.2, 1.0), vendor=(2.0, 1.5, 1.2, 1.0 + 2**-10), rounding=2.0**-12
)
EVALUATED = EvaluatedLoss(custom=(1.0,), vendor=(1.0 + 2**-9,), rounding=2.0**-12)
LAYER = ComparedLayer(where="stem", deviation=4.0, rounding=1.0, norm=64.0)


def compared(losses: ComparedLosses = LOSSES, evaluated: EvaluatedLoss | None = None) -> VendorComparison:
    """A comparison whose custom passes take twice as long as the vendor's."""
    return VendorComparison(
        losses=losses, gradient=LAYER, statistics=LAYER, custom_seconds=2.0, vendor_seconds=1.0, evaluated=evaluated
    )


def test_a_difference_may_be_eight_times_the_rounding() -> None:
    assert comparison.loss_share(compared()) == 2**-10 / (8 * 2**-12) == 0.5
    assert comparison.loss_share(compared(evaluated=EVALUATED)) == 1.0
    assert comparison.statistics_share(LAYER, 1) == 0.5
    assert comparison.statistics_share(replace(LAYER, deviation=8.1), 1) > 1


def test_gradients_may_differ_by_the_effect_of_a_relu() -> None:
    near = replace(LAYER, rounding=0.001)
    assert comparison.gradient_share(near, "fp32") == 1.0  # a sixteenth of its norm
    assert comparison.gradient_share(near, "bf16") == 0.25


def test_statistics_have_the_rounding_of_sums_over_pixels() -> None:
    """Statistics of 25088 pixels were off by 60 units in torch's batch norm."""
    layer = ComparedLayer(where="stem", deviation=60 * 2.0**-24, rounding=1e-9, norm=1.0)
    assert comparison.statistics_share(layer, 25088) < 0.1 < 1 < comparison.statistics_share(layer, 36)


def test_differences_below_the_spacing_of_numbers_pass() -> None:
    near = replace(LOSSES, vendor=(2.0, 1.5, 1.2, 1.0 + 2**-22), rounding=0.0)
    assert comparison.loss_share(compared(near)) == 2**-22 / 2**-18
    assert comparison.share(0.0, 0.0, 0.0) == 0.0
    assert comparison.share(1e-30, 0.0, 0.0) > 1


@pytest.mark.parametrize("name", ["custom", "vendor"])
def test_values_that_are_not_finite_never_pass(name: str) -> None:
    assert comparison.loss_share(compared(replace(LOSSES, **{name: (LARGEST,) * 4}))) == LARGEST
    assert comparison.finite(float("nan")) == comparison.finite(float("-inf")) == comparison.finite(1e30) == LARGEST
    assert comparison.statistics_share(replace(LAYER, rounding=LARGEST), 1) == LARGEST


def test_the_speed_is_that_of_custom_passes_relative_to_the_vendors() -> None:
    assert comparison.custom_speed(compared(), None) == 0.5
    assert comparison.custom_speed(None, None) is None


def choice(whole: WholeStep | None) -> KernelChoice:
    return KernelChoice(rounds=1, products=(), normalisations=(), whole=whole)


@pytest.mark.parametrize("whole", [None, WholeStep(vendor=1.0, chosen=1.0)])
def test_there_is_no_speed_of_kernels_that_were_not_chosen(whole: WholeStep | None) -> None:
    assert comparison.custom_speed(compared(), choice(whole)) is None
    assert comparison.custom_speed(compared(), choice(WholeStep(vendor=1.1, chosen=1.0))) == 0.5

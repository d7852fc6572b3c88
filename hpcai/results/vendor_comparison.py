"""Vendor comparison: deviations of custom kernels relative to their rounding bounds, and the speed."""

from collections.abc import Sequence
from math import isfinite, prod, sqrt

from hpcai.formulas.precision import PRECISIONS
from hpcai.formulas.score import LARGEST
from hpcai.inputfile import Case
from hpcai.kernels.arithmetic import UNIT_ROUNDOFF_FP32
from hpcai.networks.graph import Graph
from hpcai.record.preflight import ComparedLayer, ComparedLosses, KernelChoice, VendorComparison
from hpcai.results.kernel_choice import pays_off

FACTOR = 8.0  # bound / largest deviation by rounding: a random draw may be much larger than a few others
ROUNDOFF = 2.0**-22  # relative deviation of a value that a few roundings explain


def loss_share(found: VendorComparison) -> float:
    """The largest deviation of a loss by custom kernels / its bound: in training steps and in evaluation."""
    compared = (found.losses, found.evaluated)
    return max(_loss_share(losses) for losses in compared if losses is not None)


def _loss_share(losses: ComparedLosses) -> float:
    return share(largest_difference(losses.custom, losses.vendor), losses.rounding, max(map(abs, losses.vendor)))


def statistics_share(layer: ComparedLayer, pixels: int) -> float:
    """Deviation of a layer's statistics, sums over `pixels` pixels, / its bound."""
    return share(layer.deviation, layer.rounding, layer.norm, FACTOR * sqrt(pixels) * UNIT_ROUNDOFF_FP32)


def pixels(case: Case, graph: Graph, layer: str) -> int:
    """Pixels in a layer, of the samples that it computes at once."""
    return case.cut.samples * prod(graph.shapes[layer][1:])


def gradient_share(layer: ComparedLayer, precision: str) -> float:
    """Deviation of a layer's gradients / its bound."""
    return share(layer.deviation, layer.rounding, layer.norm, PRECISIONS[precision].rounding)


def share(deviation: float, rounding: float, norm: float, tolerance: float = 0.0) -> float:
    """deviation / bound; the bound is FACTOR times the rounding of values of that norm, or `tolerance` of the norm.

    The larger of the two counts. LARGEST if an argument is infinite or not a number.
    """
    if max(deviation, rounding, norm) >= LARGEST:
        return LARGEST
    bound = max(FACTOR * max(rounding, ROUNDOFF * norm), tolerance * norm)
    return min(deviation / bound, LARGEST) if bound else LARGEST * (deviation > 0)


def largest_difference(one: Sequence[float], other: Sequence[float]) -> float:
    """The largest difference of losses, step by step; LARGEST if one is infinite or NaN."""
    if max(*one, *other) >= LARGEST:
        return LARGEST
    return max(abs(left - right) for left, right in zip(one, other, strict=True))


def finite(value: float) -> float:
    """The value; LARGEST in place of a larger value or NaN."""
    return value if isfinite(value) and abs(value) < LARGEST else LARGEST


def custom_speed(comparison: VendorComparison | None, choice: KernelChoice | None) -> float | None:
    """vendor_seconds / custom_seconds; None where KERNELS is vendor, or where KERNELS auto chose nothing custom."""
    if comparison is None or (choice is not None and not pays_off(choice)):
        return None
    return comparison.vendor_seconds / comparison.custom_seconds

"""KERNELS auto: the rule that chooses a layer's kernels from their times; custom only where faster by a margin.

A layer is timed in two passes. Forward: by the vendor (`vendor`), by the vendor's kernel called from the custom
operator (`mixed`), and by the custom kernel (`custom`). Backward, where gradients share what they read: by the vendor,
by the vendor's kernels from the custom operator, with one of the gradients custom (by its name), and with all custom.
"""

from collections.abc import Collection, Iterator
from itertools import combinations
from math import inf
from typing import get_args

from hpcai.kernels.providers import CUSTOM, VENDOR
from hpcai.kernels.spec import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT
from hpcai.record.preflight import Backward, Direction, Forward, KernelChoice, TimedNormalisation, TimedProduct
from hpcai.record.training_scores import CustomShare

Directions = Collection[str]

AUTO = "auto"  # the value of KERNELS that chooses the faster kernels
MARGIN = 0.05  # factor by which a pass must be slower by vendor kernels than with the custom kernel
MIXED = "mixed"
CHOSEN = "chosen"
GRADIENTS = (INPUT_GRADIENT, WEIGHT_GRADIENT)
_DIRECTIONS: tuple[Direction, ...] = get_args(Direction)


def gradients(backward: Backward) -> tuple[str, ...]:
    """The gradients of a layer; without that of the input if it is not needed."""
    return GRADIENTS if backward.input_gradient is not None else GRADIENTS[1:]


def label(custom: Directions, wanted: Directions) -> str:
    """The field of Backward for a pass in which these gradients are custom."""
    if not custom:
        return MIXED
    return CUSTOM if set(custom) == set(wanted) else next(iter(custom))


def chosen(forward: Forward, backward: Backward) -> tuple[Direction, ...]:
    """The directions to compute by custom kernels: the admissible set with the fewest seconds of both passes."""
    directions = (FORWARD, *gradients(backward))
    sets = (frozenset(custom) for count in range(len(directions) + 1) for custom in combinations(directions, count))
    paying = (custom for custom in sets if _pays(forward, backward, custom))
    best = min(paying, key=lambda custom: seconds(forward, backward, custom))
    return tuple(direction for direction in _DIRECTIONS if direction in best)


def seconds(forward: Forward, backward: Backward, custom: Directions) -> float:
    """Seconds of both passes of a layer with these custom directions."""
    if not custom:
        return forward.vendor + backward.vendor
    return (forward.custom if FORWARD in custom else forward.mixed) + _backward(backward, {*custom} - {FORWARD})


def _backward(backward: Backward, custom: Directions) -> float:
    return float(getattr(backward, label(custom, gradients(backward))))


def _pays(forward: Forward, backward: Backward, custom: frozenset[str]) -> bool:
    """Whether each custom kernel makes its pass faster by the margin than the pass without it."""
    own = custom - {FORWARD}
    pays = FORWARD not in custom or _faster(forward.custom, forward.vendor)
    return pays and all(_faster(_backward(backward, own), other) for other in _with_fewer(backward, own))


def _with_fewer(backward: Backward, custom: frozenset[str]) -> Iterator[float]:
    """Seconds of the backward pass with one custom gradient fewer."""
    for gradient in custom:
        fewer = custom - {gradient}
        yield _backward(backward, fewer) if fewer else backward.vendor


def _faster(custom: float, vendor: float) -> bool:
    return (1 + MARGIN) * custom <= vendor


def normalised(vendor: float, custom: float) -> bool:
    """Whether a batch norm with its fused operations becomes custom."""
    return _faster(custom, vendor)


def kept(choice: KernelChoice) -> str:
    """The kernels of the fastest step of the whole network: the vendor's, those chosen by layer, or all custom."""
    whole = choice.whole
    if whole is None:
        return VENDOR
    taken: dict[str, float] = {VENDOR: whole.vendor, CHOSEN: whole.chosen, CUSTOM: whole.custom_step or inf}
    return min(taken, key=lambda kernels: taken[kernels])


def pays_off(choice: KernelChoice) -> bool:
    """Whether some kernels become custom."""
    return kept(choice) != VENDOR


def custom_share(choice: KernelChoice | None) -> CustomShare | None:
    """Shares of directions and batch norms computed by custom kernels; None without KERNELS auto."""
    if choice is None:
        return None
    of_all: dict[str, float] = {VENDOR: 0.0, CUSTOM: 1.0}
    found = kept(choice)
    return CustomShare(
        directions=of_all[found] if found in of_all else _share(choice.products),
        normalisations=of_all[found] if found in of_all else _share_of_norms(choice.normalisations),
    )


def _share(products: tuple[TimedProduct, ...]) -> float:
    whole = sum(product.layers * (1 + len(gradients(product.backward))) for product in products)
    return sum(product.layers * len(product.custom) for product in products) / whole


def _share_of_norms(norms: tuple[TimedNormalisation, ...]) -> float:
    whole = sum(norm.layers for norm in norms)
    return sum(norm.layers for norm in norms if norm.chosen) / whole if whole else 0.0

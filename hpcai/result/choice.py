"""Whose kernels compute a layer, by what was timed: ours only where they are faster by a margin.

A layer is timed in two passes. Forward: by the vendor (`vendor`), by the vendor's kernel called from our operator
(`mixed`), and by ours (`custom`). Backward, where gradients share what they read: by the vendor, by the vendor's
kernels from our operator, with one of the gradients ours (by its name), and with all ours.
"""

from collections.abc import Collection, Iterator
from itertools import combinations
from typing import Any

from hpcai.kernels.providers import CUSTOM, VENDOR
from hpcai.kernels.spec import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT

Json = dict[str, Any]
Directions = frozenset[str]

AUTO = "auto"  # the value of KERNELS that has the faster ones compute
MARGIN = 0.05  # by so much the vendor's pass takes longer where ours takes its place
MIXED = "mixed"
GRADIENTS = (INPUT_GRADIENT, WEIGHT_GRADIENT)


def wanted(entry: Json) -> tuple[str, ...]:
    """The gradients of a layer: that of the input only where one is needed."""
    return GRADIENTS if GRADIENTS[0] in entry["backward"] else GRADIENTS[1:]


def label(mine: Collection[str], gradients: Collection[str]) -> str:
    """What a backward pass is called of whose gradients some are ours."""
    if not mine:
        return MIXED
    return CUSTOM if set(mine) == set(gradients) else next(iter(mine))


def chosen(entry: Json) -> list[str]:
    """The directions that are ours: of all sets of those that pay, the one with the least seconds of both passes."""
    directions = (FORWARD, *wanted(entry))
    sets = (frozenset(mine) for count in range(len(directions) + 1) for mine in combinations(directions, count))
    best = min((mine for mine in sets if _pays(entry, mine)), key=lambda mine: seconds(entry, mine))
    return [direction for direction in directions if direction in best]


def seconds(entry: Json, mine: Directions) -> float:
    """Of both passes of a layer with these directions ours."""
    if not mine:
        return float(entry[FORWARD][VENDOR] + entry["backward"][VENDOR])
    return float(entry[FORWARD][CUSTOM if FORWARD in mine else MIXED] + _backward(entry, mine - {FORWARD}))


def _backward(entry: Json, mine: Directions) -> float:
    return float(entry["backward"][label(mine, wanted(entry))])


def _pays(entry: Json, mine: Directions) -> bool:
    """Whether each of our kernels makes its pass faster, by the margin, than it is without it."""
    gradients = mine - {FORWARD}
    forward = FORWARD not in mine or _faster(entry[FORWARD][CUSTOM], entry[FORWARD][VENDOR])
    return forward and all(_faster(_backward(entry, gradients), other) for other in _with_less(entry, gradients))


def _with_less(entry: Json, gradients: Directions) -> Iterator[float]:
    """Seconds of the backward pass with fewer of these gradients ours."""
    for gradient in gradients:
        less = gradients - {gradient}
        yield _backward(entry, less) if less else entry["backward"][VENDOR]


def _faster(ours: float, theirs: float) -> bool:
    return (1 + MARGIN) * ours <= theirs


def normalised(entry: Json) -> bool:
    """Whether a batch norm with what follows it is ours."""
    return _faster(entry[CUSTOM], entry[VENDOR])


def pays_off(found: Json) -> bool:
    """Whether what was chosen is kept: a step of the whole network is faster with it."""
    whole = found["whole"]
    return whole is not None and whole["chosen"] < whole[VENDOR]


def ours(raw: Json) -> Json:
    """Shares of the layers' directions, and of the batch norms, that our kernels compute; none where nobody chose."""
    found = raw.get("choice")
    return {"kernels_ours": {"directions": _share(found), "normalisations": _share_of_norms(found)}} if found else {}


def _share(found: Json) -> float:
    every = sum(entry["layers"] * (1 + len(wanted(entry))) for entry in found["products"])
    mine = sum(entry["layers"] * len(entry["ours"]) for entry in found["products"])
    return mine / every if pays_off(found) else 0.0


def _share_of_norms(found: Json) -> float:
    every = sum(entry["layers"] for entry in found["normalisations"])
    mine = sum(entry["layers"] for entry in found["normalisations"] if entry["ours"])
    return mine / every if every and pays_off(found) else 0.0

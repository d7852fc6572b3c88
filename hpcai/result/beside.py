"""What follows from steps by our kernels beside the same by the vendor's: do they learn the same, and how fast."""

from math import isfinite, prod, sqrt
from typing import Any

from hpcai.formulas.precision import PRECISIONS
from hpcai.formulas.score import LARGEST
from hpcai.inputfile import Case
from hpcai.kernels.providers import CUSTOM, VENDOR
from hpcai.kernels.spec import UNIT_ROUNDOFF_FP32
from hpcai.networks.graph import Graph
from hpcai.result.choice import pays_off

Json = dict[str, Any]

FACTOR = 8.0  # times what rounding makes: of draws of chance one may be much larger than some others
LOSS = "loss off the vendor's, of what rounding makes"
GRADIENT = "gradient off the vendor's, of what is allowed"
STATISTICS = "statistics off the vendor's, of what is allowed"
ROUNDOFF = 2.0**-22  # of a value: what it is rounded to, and a sum of few such roundings, is no difference


def loss_share(found: Json) -> float:
    """The largest difference of our losses from the vendor's, of what it may be: in steps, and in evaluation."""
    return max(_loss_share(found[each]) for each in ("losses", "evaluated") if each in found)


def _loss_share(losses: Json) -> float:
    theirs = losses[VENDOR]
    return share(furthest(losses[CUSTOM], theirs), losses["rounding"], max(map(abs, theirs)))


def statistics_share(layer: Json, pixels: int) -> float:
    """The distance of a layer's statistics, sums over so many pixels, from the vendor's, of what it may be."""
    return share(layer["off"], layer["rounding"], layer["size"], FACTOR * sqrt(pixels) * UNIT_ROUNDOFF_FP32)


def pixels(case: Case, graph: Graph, name: str) -> int:
    """Of a full batch in a layer."""
    return int(case["BATCH"]) * prod(graph.shapes[name][1:])


def gradient_share(layer: Json, precision: str) -> float:
    """The distance of a layer's gradients from the vendor's, of what it may be."""
    return share(layer["off"], layer["rounding"], layer["size"], PRECISIONS[precision].rounding)


def share(off: float, rounding: float, size: float, noise: float = 0.0) -> float:
    """A difference, of FACTOR times what rounding makes of values of that size, or of `noise` of them if that is more.

    LARGEST if one is no number.
    """
    if max(off, rounding, size) >= LARGEST:
        return LARGEST
    allowed = max(FACTOR * max(rounding, ROUNDOFF * size), noise * size)
    return min(off / allowed, LARGEST) if allowed else LARGEST * (off > 0)


def furthest(one: list[float], other: list[float]) -> float:
    """The largest difference of losses; LARGEST if one is no number."""
    if max(*one, *other) >= LARGEST:
        return LARGEST
    return max(abs(own - right) for own, right in zip(one, other, strict=True))


def finite(value: float) -> float:
    """The value, or LARGEST in place of one that is larger or no number."""
    return value if isfinite(value) and abs(value) < LARGEST else LARGEST


def pace(raw: Json) -> Json:
    """Passes by our kernels in the time of one by the vendor's, in the same run; nothing where the vendor's train.

    None where nothing of ours was chosen: what was timed beside the vendor's are the vendor's.
    """
    found, choice = raw.get("beside"), raw.get("choice")
    if found is None:
        return {}
    if choice and not pays_off(choice):
        return {"kernels_speed": None}
    return {"kernels_speed": found["vendor_seconds"] / found["custom_seconds"]}

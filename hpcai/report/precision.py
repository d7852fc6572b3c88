"""Lines of the report that tell what a precision gains, and what it costs."""

from collections.abc import Iterator
from typing import Any

from hpcai.formulas.precision import PRECISIONS
from hpcai.report.text import score
from hpcai.result import precision

Json = dict[str, Any]

OF_BYTES = "; forward products of 8 bits, by our kernels, gradients in fp32; below 16 bits nothing is VALID"


def lines(test: Json) -> Iterator[str]:
    """Speed-up and quality difference against the sweep's first case, and the speed in the probe."""
    scores = test["scores"]
    yield score("speed-up over the sweep's first case", scores["speedup"], "n/a, the first")
    yield score("quality, difference from that case", scores["quality_difference"], "n/a, the first")
    yield score("speed of the precision in a probe, of fp32", scores["precision_speed"], "n/a, fp32")


def note(test: Json) -> str:
    """Whether the precision is native or emulated, and how fast it was in the probe."""
    raw, name = test["raw"], test["settings"]["PRECISION"]
    if "probe" not in raw:
        return f"Precision: {name}"
    kind = "emulated" if precision.emulated(raw) else "native"
    how = "; convolutions in fp32 from and to 16 bits" if raw["probe"]["converted"] else ""
    more = OF_BYTES if PRECISIONS[name].quantised else ""
    return f"Precision: {name}, {kind} ({test['scores']['precision_speed']:.2f} of fp32 in a probe{how}){more}"


def skipped(raw: Json) -> str:
    """What to add to the number of steps."""
    steps, samples = raw["skipped_steps"], raw["skipped_samples"]
    return f", {steps} left out after overflow with {samples} samples" if steps else ""

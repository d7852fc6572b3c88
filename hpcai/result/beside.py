"""What follows from steps by our kernels beside the same by the vendor's: do they learn the same, and how fast."""

from math import inf, isfinite, sqrt
from statistics import fmean
from typing import Any

Json = dict[str, Any]

NUDGED = "nudged"  # losses of the vendor's kernels from weights that were changed by what rounding may be
FACTOR = 8.0  # times what a draw of that makes: differences are draws as well
SHARE = "loss off the vendor's, of what rounding makes"
LARGEST = 9999999.0  # stands for a share that is infinite or no number
ROUNDOFF = 2.0**-22  # of a loss: what it is rounded to, and a sum of few such roundings, is no difference


def share(losses: Json) -> float:
    """The largest difference of ours from the vendor's, of FACTOR times what rounding may make in the mean."""
    theirs = losses["vendor"]
    found = _furthest(losses["custom"], theirs)
    nudged = sqrt(fmean(_furthest(each, theirs) ** 2 for each in losses[NUDGED]))
    return found / (FACTOR * max(nudged, ROUNDOFF * max(map(abs, theirs)))) if isfinite(found + nudged) else LARGEST


def _furthest(losses: list[float], theirs: list[float]) -> float:
    """The largest difference; infinite if one is no number."""
    differences = [abs(one - other) for one, other in zip(losses, theirs, strict=True)]
    return max(differences) if all(map(isfinite, differences)) else inf


def pace(raw: Json) -> Json:
    """Passes by our kernels in the time of one by the vendor's, in the same run; nothing where these train."""
    found = raw.get("beside")
    return {"kernels_speed": found["vendor_seconds"] / found["custom_seconds"]} if found else {}

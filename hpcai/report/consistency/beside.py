"""What steps by our kernels beside the vendor's owe the input and the phases."""

from typing import Any

from hpcai.inputfile import Case

Json = dict[str, Any]
NUDGED = ("losses", "evaluated", "gradient", "statistics")


def beside(case: Case, raw: Json) -> dict[str, bool]:
    found, phase = raw.get("beside"), raw["phases"].get("beside")
    ours = case["KERNELS"] != "vendor"
    claims = {"own_kernels if, and only if, KERNELS names a file": ("own_kernels" in raw) == bool(case.own_kernels)}
    claims |= {"beside if, and only if, KERNELS is not vendor": (found is not None) == (phase is not None) == ours}
    if not found or phase is None:
        return claims
    passes = found["custom_seconds"], found["vendor_seconds"]
    return {
        **claims,
        "beside: seconds > 0": min(passes) > 0,
        "beside: within its phase": 2 * max(passes) <= phase,
        "beside: nudged weights make differences": all(found[each]["rounding"] > 0 for each in NUDGED if each in found),
        "beside: evaluated if, and only if, classes are told": ("evaluated" in found) == (case.workload != "weather"),
    }

"""Lines of the report that tell what the nodes did while a test ran."""

from collections.abc import Iterator
from typing import Any

from hpcai.report.text import counted, score

Json = dict[str, Any]

MIB = 2**20


def lines(test: Json) -> Iterator[str]:
    """Average utilisation of what computes."""
    seen = test["raw"].get("telemetry")
    for name in ("processors", "gpus"):
        words = "GPUs" if name == "gpus" else name
        yield score(f"utilisation of the {words}, average", seen and seen["average"][name], _why_not(test, name))
    if seen and "gpu_joules" in seen:
        yield score("energy of the GPUs, J", seen["gpu_joules"])


def _why_not(test: Json, name: str) -> str:
    raw = test["raw"]
    if "telemetry" not in raw:
        return "n/a, not sampled"
    return "n/a, no GPU" if name == "gpus" and not raw["memory"]["accelerated"] else "n/a, not told"


def note(test: Json) -> str:
    """Averages and maxima over time and nodes, and from how many samples."""
    seen = test["raw"].get("telemetry")
    if not seen:
        return "Telemetry: n/a, not sampled"
    parts = [
        f"processors {_share(seen, 'processors')}",
        f"memory of a node {_mebibytes(seen, 'memory_bytes')}",
        f"GPUs {_share(seen, 'gpus')}",
        f"memory of a GPU {_mebibytes(seen, 'gpu_memory_bytes')}",
    ]
    if "gpu_joules" in seen:
        parts.append(f"energy of the GPUs {seen['gpu_joules']:.0f} J, {seen['gpu_watts']:.1f} W on average")
    taken = f"{counted(seen['samples'], 'sample')}, at most {seen['interval']:.2f} s apart, of each of"
    return f"Telemetry: {'; '.join(parts)}; {taken} {counted(seen['nodes'], 'node')}"


def _share(seen: Json, name: str) -> str:
    return _told(seen, name, "{:.3f}", 1)


def _mebibytes(seen: Json, name: str) -> str:
    return _told(seen, name, "{:.1f} MiB", MIB)


def _told(seen: Json, name: str, form: str, unit: float) -> str:
    average, most = seen["average"][name], seen["maximum"][name]
    if average is None or most is None:
        return "n/a"
    return f"{form.format(average / unit)} on average, {form.format(most / unit)} at most"

"""Memory of a rank as it was planned, beside what it used: made from the input and the raw measurements alone."""

from typing import Any

from hpcai import estimate, networks
from hpcai.inputfile import Case

Json = dict[str, Any]

FACTS = ("data_bytes", "picture_bytes", "converted", "accelerated")


def memory(case: Case, raw: Json) -> Json:
    """Bytes planned for the rank that used most, and the share of them that it used; on a GPU, of its own memory."""
    used = raw["memory"]
    graph = networks.for_data(case.settings, raw["dataset"]["shape"], raw["dataset"]["classes"])
    rows = estimate.memory(graph, case.settings, estimate.Facts(**{name: used[name] for name in FACTS}))
    planned = estimate.total(rows) + (0 if used["accelerated"] else used["baseline_bytes"])
    peak = used["device_peak_bytes"] if used["accelerated"] else used["peak_bytes"]
    return {"planned_bytes": planned, "memory_share": peak / planned}

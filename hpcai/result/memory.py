"""Memory of a rank beside what was planned for it before the test."""

from typing import Any

Json = dict[str, Any]


def memory(raw: Json) -> Json:
    """The share that the rank that used most has used of the bytes planned; on a GPU, of its own memory."""
    used = raw["memory"]
    peak = used["device_peak_bytes"] if used["accelerated"] else used["peak_bytes"]
    return {"memory_share": peak / used["planned_bytes"]}

"""Lines of the report that tell of the memory of a rank."""

from collections.abc import Iterator
from typing import Any

from hpcai.report.text import score

Json = dict[str, Any]

MIB = 2**20


def lines(test: Json) -> Iterator[str]:
    """What the rank that used most has used, and of what was planned for it."""
    used, scores = test["raw"]["memory"], test["scores"]
    since = "of the run so far" if used["whole_run"] else "of a rank"
    yield score(f"peak memory {since}, MiB", used["peak_bytes"] / MIB)
    yield score("of it process and libraries, MiB", used["baseline_bytes"] / MIB)
    if used["accelerated"]:
        yield score("peak memory of a rank's GPU, MiB", used["device_peak_bytes"] / MIB)
    yield score("share of the memory planned", scores["memory_share"])

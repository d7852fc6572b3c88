"""What staging owes the input and the phases."""

from typing import Any

from hpcai.inputfile import Case

Json = dict[str, Any]


def staging(case: Case, raw: Json) -> dict[str, bool]:
    copy, wanted, seconds = raw.get("staging"), case["STAGE"], raw["phases"].get("staging")
    claims = {"staging if, and only if, STAGE is not none": (copy is None) == (wanted == "none") == (seconds is None)}
    return {**claims, **_copied(case, copy, seconds)} if copy else claims


def _copied(case: Case, copy: Json, seconds: float | None) -> dict[str, bool]:
    kept, nodes, nbytes = case["STAGE"] == "keep", copy["nodes"], copy["bytes"] + copy["reused_bytes"]
    return {
        "staging: kept if, and only if, STAGE is keep": copy["kept"] == kept,
        "staging: only a kept copy is used again": copy["reused_bytes"] == 0 or kept,
        "staging: at most a node for each rank": 1 <= nodes <= case["GROUPS"] * case["DEGREE"],
        "staging: phase = seconds": copy["seconds"] == seconds,
        "staging: one model needs the same bytes on every node": case["GROUPS"] > 1 or nbytes % max(1, nodes) == 0,
    }

"""The end of a result: counts, status, the best row, and the digest that finds slips."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from hpcai import audit
from hpcai.result.repeat import repeatability, repetitions

Json = dict[str, Any]


def summarise(result: Json, planned: int) -> Json:
    """The summary of a result whose other parts are complete; `planned` is the number of tests that were asked for."""
    tests = result["tests"]
    passed = [test for test in tests if test["verdict"] == "PASSED"]
    audits = [audit.Audit(test["status"], tuple(test["reasons"])) for test in tests]
    if len(tests) < planned:
        audits.append(audit.Audit(audit.INVALID, (f"run broken off after {len(tests)} of {planned} tests",)))
    overall = audit.worst(audits)
    return {
        "complete": len(tests) == planned,
        "planned": planned,
        "tests": len(tests),
        "passed": len(passed),
        "failed": len(tests) - len(passed),
        "skipped": 0,
        "valid": overall.status,
        "reasons": list(overall.reasons),
        "best": _best(passed or tests),
        "repeatability": repeatability(tests),
        "fingerprint": digest({key: value for key, value in result.items() if key not in ("summary", "digest")}),
    }


def _best(tests: Sequence[Json]) -> Json | None:
    """The row with the highest Valid FLOPS; of a test that was repeated, the row in the middle stands for all."""
    if not tests:
        return None
    test = max(map(_middle, repetitions(tests)), key=_valid_flops)
    return {
        "index": test["index"],
        "gflops": test["gflops"],
        "valid_gflops": test["scores"]["valid_flops"] / 1e9,
        "quality": test["scores"]["quality"],
        "target": test["scores"]["target"],
        "P": test["p"],
        "Q": test["q"],
        "time": test["seconds"],
    }


def _middle(runs: Sequence[Json]) -> Json:
    """The run whose Valid FLOPS are the median; the lower one of two."""
    return sorted(runs, key=_valid_flops)[(len(runs) - 1) // 2]


def _valid_flops(test: Json) -> float:
    return float(test["scores"]["valid_flops"])


def digest(document: Json) -> str:
    """SHA-256 (hexadecimal) of a JSON document without its `digest`: keys sorted, no blanks, UTF-8."""
    bare = {key: value for key, value in document.items() if key != "digest"}
    text = json.dumps(bare, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def sealed(result: Json, planned: int) -> Json:
    """The result with its summary and digest made anew."""
    bare = {key: value for key, value in result.items() if key not in ("summary", "digest")}
    whole = {**bare, "summary": summarise(bare, planned)}
    return {**whole, "digest": digest(whole)}

"""The end of a result: counts, status, the best row, and the digest that finds slips."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

from hpcai import audit
from hpcai.result.repeat import repeatability, repetitions
from hpcai.result.tables import ceilings

Json = dict[str, Any]


def summarise(result: Json, planned: int) -> Json:
    """The summary of a result whose other parts are complete; `planned` is the number of tests that were asked for."""
    tests = result["tests"]
    ended = [*tests, *result["tables"]]
    passed = [test for test in ended if test["verdict"] == "PASSED"]
    overall = audit.worst(_audits(result, len(ended), planned))
    return {
        "complete": len(ended) == planned,
        "planned": planned,
        "tests": len(ended),
        "passed": len(passed),
        "failed": len(ended) - len(passed),
        "skipped": 0,
        "valid": overall.status,
        "reasons": list(overall.reasons),
        "best": _best([test for test in tests if test["verdict"] == "PASSED"] or tests),
        "ceilings": ceilings(result),
        "repeatability": repeatability(tests),
        "fingerprint": digest({key: value for key, value in result.items() if key not in ("summary", "digest")}),
    }


def _audits(result: Json, ended: int, planned: int) -> Iterator[audit.Audit]:
    """The verdicts on the tests and tables that have ended, and on the run."""
    yield from (audit.Audit(test["status"], tuple(test["reasons"])) for test in result["tests"])
    yield from (audit.table(table["verdict"] == "PASSED") for table in result["tables"])
    if ended < planned:
        yield audit.Audit(audit.INVALID, (f"run broken off after {ended} of {planned} tests",))
    elif not result["tests"]:
        yield audit.NOTHING


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

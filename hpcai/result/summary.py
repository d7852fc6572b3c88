"""The end of a result: counts, status, the best row, and the digest that finds slips."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hpcai.formulas import eligibility
from hpcai.result.repeat import repeatability, repetitions
from hpcai.result.tables import ceilings

Json = dict[str, Any]

RANKED_BY = {"ensemble": "valid_flops", "weather": "valid_flops", "nas": "regulated_score"}
SEARCHED = ("ops", "regulated_score", "idle_share")  # of a search


def summarise(result: Json, planned: int) -> Json:
    """The summary of a result whose other parts are complete; `planned` is the number of tests that were asked for."""
    tests = result["tests"]
    ended = [*tests, *result["tables"]]
    passed = [test for test in ended if test["verdict"] == "PASSED"]
    overall = eligibility.worst(_audits(result, len(ended), planned))
    return {
        "complete": len(ended) == planned,
        "planned": planned,
        "tests": len(ended),
        "passed": len(passed),
        "failed": len(ended) - len(passed),
        "skipped": 0,
        "valid": overall.status,
        "reasons": list(overall.reasons),
        **_best_rows([test for test in tests if test["verdict"] == "PASSED"] or tests),
        "ceilings": ceilings(result),
        "repeatability": repeatability(tests),
        "fingerprint": digest({key: value for key, value in result.items() if key not in ("summary", "digest")}),
    }


def _audits(result: Json, ended: int, planned: int) -> Iterator[eligibility.Audit]:
    """The verdicts on the tests and tables that have ended, and on the run."""
    yield from (eligibility.Audit(test["status"], tuple(test["reasons"])) for test in result["tests"])
    yield from (eligibility.table(table["verdict"] == "PASSED") for table in result["tables"])
    if ended < planned:
        yield eligibility.Audit(eligibility.INVALID, (f"run broken off after {ended} of {planned} tests",))
    elif not result["tests"]:
        yield eligibility.NOTHING


def _best_rows(tests: Sequence[Json]) -> Json:
    """`best`: of the ensembles, else of weather, else of the searches; what is left of these under their own names."""
    told, weather, searched = (
        _best([test for test in tests if test["workload"] == name], by) for name, by in RANKED_BY.items()
    )
    first = told or weather or searched
    found: Json = {"best": _row(first)}
    if weather and weather is not first:
        figures = {**_figures(weather), "quality": weather["scores"]["quality"], "gflops": weather["gflops"]}
        found["weather"] = {f"weather_{name}": value for name, value in {"index": weather["index"], **figures}.items()}
    if searched and searched is not first:
        found["search"] = {"search_index": searched["index"], **_figures(searched)}
    return found


def _best(tests: Sequence[Json], name: str) -> Json | None:
    """The test with the highest score of a name; of one that was repeated, the run in the middle stands for all."""
    return max((_middle(runs, name) for runs in repetitions(tests)), key=_by(name), default=None)


def _middle(runs: Sequence[Json], name: str) -> Json:
    """The run whose score is the median; the lower one of two."""
    return sorted(runs, key=_by(name))[(len(runs) - 1) // 2]


def _by(name: str) -> Callable[[Json], float]:
    return lambda test: float(test["scores"][name])


def _row(test: Json | None) -> Json | None:
    """What the summary tells of its best row."""
    return test and {
        "index": test["index"],
        "gflops": test["gflops"],
        **_figures(test),
        "quality": test["scores"]["quality"],
        "target": test["scores"]["target"],
        "P": test["p"],
        "Q": test["q"],
        "time": test["seconds"],
    }


def _figures(test: Json) -> Json:
    """What tests of its kind are ranked by."""
    scores = test["scores"]
    if test["workload"] == "nas":
        return {name: scores[name] for name in SEARCHED}
    return {"valid_gflops": scores["valid_flops"] / 1e9}


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

"""From raw measurements to what is reported: every derived number is made here, from the input and the raw numbers.

The run uses these functions once, and `--verify` uses them again on a stored result; so they are pure, and what they
return is plain JSON.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from hpcai import audit, networks, opcount, score
from hpcai.inputfile import Case

SCHEMA = "hpcai-result/1"
RULE = "model"  # the operation count behind FLOPS

Json = dict[str, Any]

RESIDUAL = "||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)"
ELEMENTWISE = "max|C-L*R|/(8*sqrt(N)*u*sqrt((LoL)*(RoR)))"


def judge(case: Case, raw: Json, earlier: Sequence[Json]) -> Json:
    """One test as it stands in the result file, from its case, its raw measurements and the tests before it."""
    settings = case.settings
    operations = _operations(case, raw)
    rate = score.flops(operations["credited"], raw["phases"]["training"])
    checks = _checks(case, raw, operations)
    test = {
        "index": case.index,
        "tv": tv(settings),
        "workload": case.workload,
        "n": raw["samples"],
        "nb": settings["BATCH"],
        "p": settings["GROUPS"],
        "q": settings["DEGREE"],
        "seconds": raw["phases"]["training"],
        "gflops": rate / 1e9,
        "settings": dict(settings),
        "operations": operations,
        "checks": checks,
        "verdict": "PASSED" if all(check["verdict"] == "PASSED" for check in checks) else "FAILED",
        "scores": _scores(case, raw, rate, earlier),
        "phases": raw["phases"],
        "raw": raw,
    }
    return {**test, **_audit(test)}


def tv(settings: Mapping[str, Any]) -> str:
    """The eight characters that say how a row was made (docs/METRICS.md, T/V)."""
    order = {"row": "R", "column": "C"}[settings["MAPPING"]]
    reduction = 0 if settings["DEGREE"] == 1 else {"flat": 1}[settings["ALLREDUCE"]]
    precision = {"fp32": "S"}[settings["PRECISION"]]
    mode = {"data": 1}[settings["PARALLEL"]]
    kernels = {"vendor": "V"}[settings["KERNELS"]]
    wire = {"fp32": 4}[settings["WIRE"]]
    return f"W{order}1{reduction}{precision}{mode}{kernels}{wire}"


def _operations(case: Case, raw: Json) -> Json:
    graph = networks.for_data(case.settings, raw["dataset"]["shape"], raw["dataset"]["classes"])
    per_sample = opcount.count(graph, RULE).total
    return {
        "rule": RULE,
        "per_sample": per_sample,
        "credited": per_sample * raw["samples"],
        "executed": raw["executed_operations"],
    }


def _checks(case: Case, raw: Json, operations: Json) -> list[Json]:
    unproven = abs(operations["credited"] - operations["executed"]) / operations["per_sample"]
    checks = [
        at_most(RESIDUAL, raw["residuals"]["scaled"]["value"], case["RESIDUAL"]),
        at_most(ELEMENTWISE, raw["residuals"]["elementwise"]["value"], 1),
        at_most("all-reduce of integers: wrong elements", raw["wrong_sums"], 0),
        at_most("parameters and statistics: differing ranks", raw["differing_ranks"], 0),
        at_most("loss not finite: models", raw["diverged_models"], 0),
        at_most("operations credited, not executed: samples", unproven, 0),
        at_most("validation samples not judged exactly once", raw["validation_miscounted"], 0),
    ]
    if case["GROUPS"] > 1:
        apart = _disagreement(case, raw)
        verdict = "PASSED" if apart > 0 else "FAILED"
        checks.append(
            {"name": "pairwise disagreement of models, not 0", "value": apart, "limit": 0, "verdict": verdict}
        )
    return checks


def at_most(name: str, value: float, limit: float) -> Json:
    """A check that is PASSED if its value does not exceed its limit; a NaN never passes."""
    return {"name": name, "value": value, "limit": limit, "verdict": "PASSED" if value <= limit else "FAILED"}


def _disagreement(case: Case, raw: Json) -> float:
    return score.disagreement(raw["agreeing_pairs"], case["GROUPS"], raw["dataset"]["validation_samples"])


def _scores(case: Case, raw: Json, rate: float, earlier: Sequence[Json]) -> Json:
    samples, models = raw["dataset"]["validation_samples"], case["GROUPS"]
    quality, target = raw["correct"] / samples, raw["target"]
    reached = raw["reached_models"] == models
    return {
        "flops": rate,
        "valid_flops": score.valid_flops(rate, quality, target, case["PENALTY"]),
        "quality": quality,
        "target": target,
        "reached": quality >= target,
        "member_mean": raw["member_correct_sum"] / (models * samples),
        "member_min": raw["member_correct_min"] / samples,
        "member_max": raw["member_correct_max"] / samples,
        "member_best": raw["member_correct_best"] / samples,
        "out_of_bag": raw["bag_correct"] / raw["bag_judged"] if raw["bag_judged"] else None,
        "disagreement": _disagreement(case, raw) if models > 1 else None,
        "time_to_quality": raw["reached_seconds_max"] if reached else None,
        "time_to_quality_mean": raw["reached_seconds_sum"] / models if reached else None,
        "epochs_to_quality": raw["reached_epochs_max"] if reached else None,
        "epochs_to_quality_mean": raw["reached_epochs_sum"] / models if reached else None,
        "efficiency": _efficiency(case, rate, earlier),
        "images_per_second": raw["samples"] / raw["phases"]["training"],
        "data_wait_share": raw["phases"]["data wait"] / raw["phases"]["training"],
    }


def _efficiency(case: Case, rate: float, earlier: Sequence[Json]) -> float:
    """Against the first test that differs in the grid alone; 1 for that test itself."""
    grid = ("GROUPS", "DEGREE", "MAPPING")
    same = {key: value for key, value in case.settings.items() if key not in grid}
    for test in earlier:
        if test["workload"] == case.workload and same.items() <= test["settings"].items():
            ranks = test["p"] * test["q"]
            return score.efficiency(rate, case["GROUPS"] * case["DEGREE"], test["scores"]["flops"], ranks)
    return 1.0


def _audit(test: Json) -> Json:
    dataset, settings = test["raw"]["dataset"], test["settings"]
    found = audit.official(
        {
            "dataset": dataset["name"],
            "original": settings["SAMPLES"] == 0,
            "samples": dataset["training_samples"],
            "epochs": settings["EPOCHS"],
            "target": test["raw"]["target"],
            "penalty": settings["PENALTY"],
            "bits": {"fp32": 32}[settings["PRECISION"]],
            "passed": test["verdict"] == "PASSED",
            "completed": True,
        }
    )
    return {"status": found.status, "reasons": list(found.reasons)}


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
        "fingerprint": digest({key: value for key, value in result.items() if key not in ("summary", "digest")}),
    }


def _best(tests: Sequence[Json]) -> Json | None:
    """The row with the highest Valid FLOPS."""
    if not tests:
        return None
    test = max(tests, key=lambda test: test["scores"]["valid_flops"])
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

"""One test as it stands in the result file, made from its case, its raw measurements and the tests before it."""

from collections.abc import Mapping, Sequence
from typing import Any

from hpcai import networks, opcount
from hpcai.formulas import eligibility, score
from hpcai.formulas.precision import PRECISIONS
from hpcai.inputfile import Case
from hpcai.result.checks import checks
from hpcai.result.scores import scores

Json = dict[str, Any]

RULE = "model"  # the operation count behind FLOPS
DIGITS = {"ensemble": 1, "weather": 2, "nas": 3}


def judge(case: Case, raw: Json, earlier: Sequence[Json], tables: Sequence[Json] = ()) -> Json:
    """One test as it stands in the result file, from its case, its raw measurements and what came before it.

    `earlier` are the tests before it, `tables` those of kernels and collectives.
    """
    counted = operations(case, raw)
    rate = score.flops(counted["credited"], raw["phases"]["training"])
    of_case = scores(case, raw, rate, earlier, tables)
    test = entry(case, raw, raw["phases"]["training"], rate, counted, checks(case, raw, counted), of_case)
    return {**test, **_audit(test)}


def entry(
    case: Case, raw: Json, seconds: float, rate: float, counted: Json, found: Sequence[Json], scores: Json
) -> Json:
    """What all tests with a row have: the columns (`rate` in FLOP/s), the checks with their verdict, and the scores."""
    settings = case.settings
    return {
        "index": case.index,
        "tv": tv(settings, case.workload),
        "workload": case.workload,
        "n": raw["samples"],
        "nb": settings["BATCH"],
        "p": settings["GROUPS"],
        "q": settings["DEGREE"],
        "seconds": seconds,
        "gflops": rate / 1e9,
        "settings": dict(settings),
        "operations": counted,
        "checks": found,
        "verdict": "PASSED" if all(check["verdict"] != "FAILED" for check in found) else "FAILED",
        "scores": scores,
        "phases": raw["phases"],
        "raw": raw,
    }


def tv(settings: Mapping[str, Any], workload: str = "ensemble") -> str:
    """The eight characters that say how a row was made (docs/METRICS.md, T/V)."""
    order = {"row": "R", "column": "C"}[settings["MAPPING"]]
    reduction = 0 if settings["DEGREE"] == 1 else {"flat": 1}[settings["ALLREDUCE"]]
    precision = PRECISIONS[settings["PRECISION"]].letter
    mode = {"data": 1}[settings["PARALLEL"]]
    kernels = {"vendor": "V", "custom": "C", "auto": "A", "file": "F"}[settings["KERNELS"].partition(":")[0]]
    wire = {"fp32": 4}[settings["WIRE"]]
    return f"W{order}{DIGITS[workload]}{reduction}{precision}{mode}{kernels}{wire}"


def operations(case: Case, raw: Json) -> Json:
    """Operations by the headline rule: of one sample, credited, skipped, and executed as the hooks saw them.

    Skipped are those of steps that were left out because gradients overflowed: executed, but for nothing.
    """
    each = per_sample(case, raw)
    return {
        "rule": RULE,
        "per_sample": each,
        "credited": each * raw["samples"],
        "skipped": each * raw["skipped_samples"],
        "executed": raw["executed_operations"],
    }


def per_sample(case: Case, raw: Json) -> int:
    """Operations of one training sample by the headline rule."""
    graph = networks.for_data(case.settings, raw["dataset"]["shape"], raw["dataset"]["classes"])
    return opcount.count(graph, RULE).total


def _audit(test: Json) -> Json:
    dataset, settings = test["raw"]["dataset"], test["settings"]
    found = eligibility.official(
        {
            "dataset": dataset["name"],
            "original": settings["SAMPLES"] == 0,
            "samples": dataset["training_samples"],
            "validation": dataset["validation_samples"],
            "epochs": settings["EPOCHS"],
            "target": test["raw"]["target"],
            "penalty": settings["PENALTY"],
            "bits": PRECISIONS[settings["PRECISION"]].bits,
            "passed": test["verdict"] == "PASSED",
            "completed": True,
        },
        eligibility.OFFICIAL[test["workload"]],
    )
    return {"status": found.status, "reasons": list(found.reasons)}

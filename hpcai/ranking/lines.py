"""The lines of a verified result: the best row that PASSED for each list, and its ceilings."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from hpcai.formulas.eligibility import INVALID, NOTHING, VALID
from hpcai.ranking.submission import MOST_REASON, PER_WATT, VERIFIED, Line, ListKey
from hpcai.record.entry import Row
from hpcai.record.result import Result, Summary
from hpcai.report.closing import summary_of
from hpcai.results.cells import cell, system_name
from hpcai.results.summary import best_test, ranking_score
from hpcai.workloads import registry

PASSED, VALID_FLOPS = "PASSED", "valid_flops"
FIXED = "fixed"  # a source of energy that measures nothing
CEILINGS = {"gemm": "GEMM ceiling", "convolution": "convolution ceiling"}  # fields of the summary, and their lists


def why_not_ranked(result: Result) -> str:
    """Why no list has a result; empty if it may be ranked. A sound result of tables alone has its ceilings ranked."""
    summary = summary_of(result)
    if not summary.complete:
        return f"broken off after {summary.tests} of {summary.planned} tests"
    only_tables = summary.reasons == NOTHING.reasons and not summary.failed
    if summary.valid == INVALID and not (only_tables and any(_ceilings(summary))):
        return cell(f"{INVALID}: {'; '.join(summary.reasons)}", MOST_REASON)
    return ""


def lines_of(result: Result, source: str) -> Iterator[Line]:
    """A line for each list that the result is in."""
    grouped: dict[ListKey, list[Row]] = {}
    for test in result.tests:
        if test.verdict == PASSED and test.status != INVALID:
            grouped.setdefault(_key(result, test), []).append(test)
    for key, tests in grouped.items():
        best = best_test(tests, ranking_score(registry.workload(key.section)))
        yield _line(result, key, best, source)
        yield from _line_per_watt(result, key, tests, source)
    yield from _ceiling_lines(result, source)


def size(section: str, p: int) -> str:
    """V2 of one model, V3 of an ensemble; empty of workloads whose P is something else."""
    if not registry.workload(section).ensembles:
        return ""
    return "V2" if p == 1 else "V3"


def target(section: str, status: str, quality: float, exponent: float) -> str:
    """TARGET^PENALTY, where Valid FLOPS ranks; empty of VALID tests, which all have the official ones.

    Without it a low target would lead a list.
    """
    fixed = status == VALID or registry.workload(section).ranked_by != VALID_FLOPS
    return "" if fixed else f"target-{quality:g}^{exponent:g}"


def _key(result: Result, test: Row) -> ListKey:
    return ListKey(
        VERIFIED,
        test.workload,
        dataset_of(test),
        test.status,
        summary_of(result).level,
        size(test.workload, test.p),
        str(test.settings.get("PRECISION", "")),
        target(test.workload, test.status, test.scores.target, _number(test.settings.get("PENALTY"))),
    )


def dataset_of(test: Row) -> str:
    """The name of the data as they were found; of a workload without data nothing."""
    found = getattr(test.raw, "dataset", None)
    return cell(found.name if found else str(test.settings.get("DATASET", "")).partition(":")[0])


def _line_per_watt(result: Result, key: ListKey, tests: Sequence[Row], source: str) -> Iterator[Line]:
    """The line of the list by Valid FLOPS per watt, if the energy of a test is known."""
    known = [test for test in tests if _per_watt(test) is not None]
    if known:
        best = best_test(known, lambda test: _per_watt(test) or 0.0)
        line = _line(result, replace(key, by=PER_WATT), best, source)
        yield replace(line, score=line.valid_flops_per_watt or 0.0)


def _per_watt(test: Row) -> float | None:
    """Valid FLOPS per watt; None if no power was measured, as with the fixed watts of ENERGY."""
    energy = getattr(test.raw, "energy", None)
    return getattr(test.scores, "valid_flops_per_watt", None) if energy and energy.source != FIXED else None


def _line(result: Result, key: ListKey, test: Row, source: str) -> Line:
    workload, scores = registry.workload(test.workload), test.scores
    roofline = getattr(scores, "roofline", None)
    return Line(
        key,
        ranking_score(workload)(test),
        verdict="REACHED" if scores.reached else "MISSED",
        source=source,
        seconds=test.seconds,
        p=test.p,
        q=test.q,
        network=cell(test.settings.get("NETWORK", "")),
        rule=test.operations.rule,
        epochs=_whole(test.settings.get("EPOCHS")),
        precision=key.precision,
        flops=test.gflops * 1e9,
        valid_flops=getattr(scores, "valid_flops", None),
        ops=getattr(scores, "highest_ops", None),
        regulated_score=getattr(scores, "regulated_score", None),
        quality=scores.quality,
        time_to_quality=getattr(scores, "time_to_quality", None),
        tokens_per_second=getattr(scores, "tokens_per_second", None),
        efficiency=getattr(scores, "efficiency", None),
        ceiling=roofline.ceilings.compute if roofline else None,
        ceiling_share=roofline.shares.compute if roofline else None,
        watts=getattr(scores, "mean_watts", None),
        covers=_covers(test),
        valid_flops_per_watt=_per_watt(test),
        index=test.index,
        cv=_variation(summary_of(result), test.index, workload.ranked_by),
        **_machine(result),
    )


def _covers(test: Row) -> str:
    """The part of the nodes whose power is known, and by which source."""
    energy = getattr(test.raw, "energy", None)
    return f"{energy.covers}, {energy.source}" if energy and energy.joules is not None else ""


def _machine(result: Result) -> dict[str, Any]:
    """The fields of a line that all tests of a run share."""
    environment = result.environment
    return {
        "site": cell(result.input.headers[0]),
        "system": system_name(result),
        "accelerators": environment.accelerators * environment.nodes,
        "ranks": environment.ranks,
        "framework": cell(f"torch {environment.packages.get('torch', '')}".strip()),
        "date": result.date[:10],
        "version": cell(result.version),
        "run": summary_of(result).fingerprint,
    }


def _number(value: object) -> float:
    return value if isinstance(value, int | float) else 0.0


def _each(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _variation(summary: Summary, index: int, score: str) -> float | None:
    """Coefficient of variation of the ranking score over the repetitions of a test."""
    entry = next((entry for entry in summary.repeatability if index in entry.tests), None)
    spread = entry.spreads.get(score) if entry else None
    return spread.cv if spread else None


def _ceilings(summary: Summary) -> list[float | None]:
    return [getattr(summary.ceilings, name) for name in CEILINGS]


def _ceiling_lines(result: Result, source: str) -> Iterator[Line]:
    """A line for each ceiling that tables of the result measured."""
    summary = summary_of(result)
    measuring = [table for table in result.tables if hasattr(table, "ceilings")]
    section = next((table.workload for table in measuring), "")
    shapes = dict.fromkeys(str(shape) for table in measuring for shape in _each(table.settings["SHAPES"]))
    for words, rate in zip(CEILINGS.values(), _ceilings(summary), strict=True):
        if rate is not None:
            key = ListKey(VERIFIED, section, f"{words}, {' '.join(shapes)}", level=summary.level)
            yield Line(key, rate, verdict=PASSED, source=source, ceiling=rate, **_machine(result))

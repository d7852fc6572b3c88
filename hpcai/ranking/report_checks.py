"""What the numbers of a report contradict, of which there is no result."""

import re
from collections.abc import Iterator
from math import inf, isclose

from hpcai.formulas import score
from hpcai.formulas.eligibility import SEVERITY
from hpcai.ranking.official_checks import departures
from hpcai.ranking.report_notes import SEARCH, network_of, status_of
from hpcai.ranking.report_parser import Report, ReportedRow

HALF, HALF_SECONDS, HALF_GFLOPS = 0.5000001e-7, 0.0050001, 0.500001e-4  # rounding: of scores, of Time; share of Gflops
MOST_PENALTY = 100.0  # so that no power is larger than a number can be


def contradictions(report: Report) -> list[str]:
    """What the numbers of a report contradict; a report that is not complete is judged by `submission`."""
    found = [*_end(report)] if report.ended else []
    return [*found, *(words for row in report.rows for words in _row(row, report))]


def _end(report: Report) -> Iterator[str]:
    summary = report.summary
    counts = [summary.get(name, "") for name in ("tests", "passed", "failed")]
    if not all(count.isdecimal() and len(count) < 9 for count in counts) or "valid" not in summary:
        yield "no counts of tests in its summary"
        return
    tests, passed, failed = map(int, counts)
    if report.failed or failed:
        yield "a check is FAILED"
    if tests != passed + failed or len(report.rows) > tests or not report.rows:
        yield f"{tests} tests, {passed} passed, {failed} failed, {len(report.rows)} rows"
    if not re.fullmatch("[0-9a-f]{64}", summary.get("fingerprint", "")):
        yield "no fingerprint"
    yield from _status(report)
    yield from _summary(report)


def _status(report: Report) -> Iterator[str]:
    """The run's status is the worst of its rows, and stands in the last lines as well."""
    stated = [status_of(row) for row in report.rows]
    worst = max(stated, key=SEVERITY.index, default="") if {*stated} <= {*SEVERITY} else ""
    final = report.final.removeprefix("Final Summary::HPCAI result is ").partition(";")[0]
    if report.rows and not report.summary["valid"] == worst == final:
        yield f"status {report.summary['valid']}, final summary {final}, worst of the rows {worst or 'not known'}"


def _summary(report: Report) -> Iterator[str]:
    """The best row of each workload in the summary is one of the report's rows, and none is better."""
    names = dict.fromkeys(row.workload.name for row in report.rows)
    for name in names:
        prefix = "" if report.summary.get("workload") == name else f"{name}_"
        rows = [row for row in report.rows if row.workload.name == name]
        best = [row for row in rows if _is_best(row, report, prefix)]
        if not best:
            yield f"the best row of [{name}] in the summary is none of its rows"
        elif _once(report) and max(map(rank_of, rows)) > max(map(rank_of, best)):
            yield f"the best row of [{name}] in the summary is not the best of its rows"


def _once(report: Report) -> bool:
    """Whether no test is repeated with several seeds, of which the median counts."""
    return report.settings.get(("", "REPEAT")) == ["1"] and len(report.settings.get(("", "SEED"), ())) == 1


def _is_best(row: ReportedRow, report: Report, prefix: str) -> bool:
    expected = {"P": row.p, "Q": row.q, "gflops": row.scores.get("flops", 0.0) / 1e9}
    expected |= {name: row.scores.get(name, inf) for name in ("quality", "target")}
    figures = [each for each in row.workload.figures if each.score in row.scores]  # others are printed by another name
    expected |= {each.name: row.scores[each.score] / each.scale for each in figures}
    stated = {name: _number(report.summary.get(prefix + name)) for name in (*expected, "time")}
    errors = {each.name: HALF * row.scales.get(each.score, 1.0) / each.scale for each in figures}
    close = [
        isclose(stated[name], value, rel_tol=1e-12, abs_tol=HALF + errors.get(name, HALF))
        for name, value in expected.items()
    ]
    return all(close) and abs(stated["time"] - row.seconds) <= HALF_SECONDS


def _number(text: str | None) -> float:
    return float(text) if text and re.fullmatch(r"-?\d{1,300}(\.\d{1,20})?", text) else -inf


def rank_of(row: ReportedRow) -> float:
    return row.workload.rank(row.scores.get(row.workload.ranked_by, -inf))


def _row(row: ReportedRow, report: Report) -> Iterator[str]:
    """What the numbers of a row contradict."""
    if "PASSED" not in row.verdicts or not {"flops", "quality", "target"} <= {*row.scores}:
        yield f"{row.tv}: no check that PASSED, or a score is missing"
        return
    rate = row.scores["flops"] / 1e9
    if abs(row.gflops - rate) > HALF_GFLOPS * max(rate, 1e-2) + HALF:
        yield f"{row.tv}: Gflops {row.gflops:g}, FLOPS {rate:.7f} GFLOP/s"
    if row.p * row.q > report.ranks:
        yield f"{row.tv}: P x Q {row.p} x {row.q}, {report.ranks} ranks in the rank map"
    yield from departures(row)
    yield from _operations(row, rate)
    yield from _per_watt(row)
    yield from _quality(row)
    yield from _valid_flops(row, report)


def _operations(row: ReportedRow, rate: float) -> Iterator[str]:
    """Gflops is credited operations / Time, and those are of N samples."""
    if not (found := network_of(row)):
        return
    per_sample, credited = int(found["per_sample"]), int(found["credited"])
    least = credited / (row.seconds + HALF_SECONDS) / 1e9
    most = credited / (row.seconds - HALF_SECONDS) / 1e9 if row.seconds > HALF_SECONDS else inf
    if not least - HALF <= rate <= most + HALF:
        yield f"{row.tv}: Gflops {row.gflops:g}, credited / Time {credited / max(row.seconds, HALF_SECONDS) / 1e9:.4f}"
    if not found[0].startswith(SEARCH) and credited != row.n * per_sample:
        yield f"{row.tv}: {credited} operations credited, N x operations of a sample {row.n * per_sample}"


def _per_watt(row: ReportedRow) -> Iterator[str]:
    """Valid FLOPS per watt is Valid FLOPS / mean power, and there is none without Energy."""
    scores = row.scores
    if "valid_flops_per_watt" not in scores:
        return
    watts, printed = scores.get("mean_watts", 0.0), scores["valid_flops_per_watt"]
    if row.notes.get("Energy", "n/a").startswith("n/a") or watts <= HALF or "valid_flops" not in scores:
        yield f"{row.tv}: Valid FLOPS per watt, but no Energy"
    elif abs(printed - (expected := scores["valid_flops"] / watts)) > 2e9 * HALF * (1 + 1 / watts) + expected * 1e-6:
        yield f"{row.tv}: Valid FLOPS per watt {printed / 1e9:.7f} GFLOP/s/W, of the printed ones {expected / 1e9:.7f}"


def _share(row: ReportedRow) -> float | None:
    """The printed quality / target."""
    return next((value for label, value in row.lines.items() if label.startswith("quality(")), None)


def _quality(row: ReportedRow) -> Iterator[str]:
    """Quality / target is printed, and so is whether the target was reached."""
    of, quality, target, share = row.workload.quality, row.scores["quality"], row.scores["target"], _share(row)
    if of is None or share is None or target <= 0:
        yield f"{row.tv}: no quality / target"
        return
    expected = of.share_of_target(quality, target)
    error = expected * (HALF / target + (HALF / quality if quality > 0 else 0.0)) + HALF
    if abs(share - expected) > 1.001 * error:
        yield f"{row.tv}: quality / target {share:.7f}, of the printed ones {expected:.7f}"
    reached = "REACHED" in row.verdicts
    if abs(quality - target) > 2 * HALF and reached != of.reached(quality, target):
        yield f"{row.tv}: quality {quality:.7f}, target {target:.7f}, {'REACHED' if reached else 'not REACHED'}"


def _valid_flops(row: ReportedRow, report: Report) -> Iterator[str]:
    """Valid FLOPS is FLOPS x (quality / target)^PENALTY, of one of the values of PENALTY."""
    valid, expected = row.scores.get("valid_flops"), _expected(row, report)
    if valid is not None and _share(row) is not None and exponent_of(row, report) is None:
        shown = " or ".join(f"{value / 1e9:.7f}" for value in [*expected.values()][:3])
        yield f"{row.tv}: Valid FLOPS {valid / 1e9:.7f} GFLOP/s, FLOPS x (quality / target)^PENALTY {shown}"


def _expected(row: ReportedRow, report: Report) -> dict[float, float]:
    """Valid FLOPS by each value of PENALTY; empty without quality / target."""
    share = _share(row)
    exponents = map(_number, report.settings.get((row.workload.name, "PENALTY"), ()))
    if share is None:
        return {}
    allowed = [each for each in exponents if 0 <= each <= MOST_PENALTY]
    return {each: score.valid_flops(row.scores["flops"], share, each) for each in allowed}


def exponent_of(row: ReportedRow, report: Report) -> float | None:
    """The PENALTY by which the printed Valid FLOPS follows from the printed FLOPS, up to rounding."""
    valid, rate, share = row.scores.get("valid_flops"), row.scores["flops"], _share(row)
    for exponent, value in _expected(row, report).items():
        error = HALF / max(rate / 1e9, HALF) + exponent * HALF / max(share or 0.0, HALF)
        if valid is not None and abs(valid - value) <= 1.01 * value * error + 1e9 * HALF:
            return exponent
    return None

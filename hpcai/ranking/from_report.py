"""A report without its result: what its own numbers contradict, and its lines, which are never among verified ones."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf, isclose

from hpcai.formulas import score
from hpcai.formulas.eligibility import INVALID, SEVERITY
from hpcai.formulas.precision import PRECISIONS
from hpcai.ranking.lines import size
from hpcai.ranking.report_parser import Report, ReportedRow, parsed
from hpcai.ranking.submission import PER_WATT, REPORTED, Apart, Line, ListKey, Submission
from hpcai.results.cells import cell

HALF, HALF_SECONDS, HALF_GFLOPS = 0.5000001e-7, 0.0050001, 0.500001e-4  # rounding: of scores, of Time; share of Gflops
NETWORK = re.compile(r"(?:a search that began with )?(\S+) .*: (\d+) FLOP per sample, (\d+) credited")
MOST_PENALTY = 100.0  # so that no power is larger than a number can be
SEARCH = "a search that began with"  # whose networks have different operations
DATA = re.compile(r"(.*), \d+ \+ \d+ \S+, sha256 [0-9a-f]{64}")
MACHINE = re.compile(r"(\d+) nodes?; rank 0 on (.*), \d+ CPUs, \S+ GiB, device (.*), .*")

__all__ = ["contradictions", "parsed", "submission"]


def contradictions(report: Report) -> list[str]:
    """What the numbers of a report contradict; a report that is not complete is judged by `submission`."""
    found = [*_end(report)] if report.ended else []
    return [*found, *(words for row in report.rows for words in _row(row, report))]


def submission(report: Report, path: str) -> Submission | Apart:
    """The lines of a report without contradictions, or why it is not listed."""
    valid = report.summary.get("valid", "")
    if not report.ended:
        return Apart(path, "from report: broken off, the line End of Tests. is missing")
    if valid == INVALID:
        return Apart(path, f"from report: {cell(report.final.removeprefix('Final Summary::'))}")
    return Submission(path, report.summary["fingerprint"], tuple(_lines(report, path)), REPORTED)


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
        elif _once(report) and max(map(_rank, rows)) > max(map(_rank, best)):
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


def _rank(row: ReportedRow) -> float:
    return row.workload.rank(row.scores.get(row.workload.ranked_by, -inf))


def _row(row: ReportedRow, report: Report) -> Iterator[str]:
    """What the numbers of a row contradict."""
    if "PASSED" not in row.verdicts or not {"flops", "quality", "target"} <= {*row.scores}:
        yield f"{row.tv}: no check that PASSED, or a score is missing"
        return
    rate = row.scores["flops"] / 1e9
    if abs(row.gflops - rate) > HALF_GFLOPS * max(rate, 1e-2) + HALF:
        yield f"{row.tv}: Gflops {row.gflops:g}, FLOPS {rate:.7f} GFLOP/s"
    yield from _operations(row, rate)
    yield from _quality(row)
    yield from _valid_flops(row, report)


def _operations(row: ReportedRow, rate: float) -> Iterator[str]:
    """Gflops is credited operations / Time, and those are of N samples."""
    text = row.notes.get("Network", "")
    if not (found := NETWORK.fullmatch(text)):
        return
    per_sample, credited = int(found[2]), int(found[3])
    least = credited / (row.seconds + HALF_SECONDS) / 1e9
    most = credited / (row.seconds - HALF_SECONDS) / 1e9 if row.seconds > HALF_SECONDS else inf
    if not least - HALF <= rate <= most + HALF:
        yield f"{row.tv}: Gflops {row.gflops:g}, credited / Time {credited / max(row.seconds, HALF_SECONDS) / 1e9:.4f}"
    if not text.startswith(SEARCH) and credited != row.n * per_sample:
        yield f"{row.tv}: {credited} operations credited, N x operations of a sample {row.n * per_sample}"


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
    valid, share = row.scores.get("valid_flops"), _share(row)
    exponents = map(_number, report.settings.get((row.workload.name, "PENALTY"), ()))
    if valid is None or share is None:
        return
    rate = row.scores["flops"]
    expected = {each: score.valid_flops(rate, share, each) for each in exponents if 0 <= each <= MOST_PENALTY}
    errors = {each: HALF / max(rate / 1e9, HALF) + each * HALF / max(share, HALF) for each in expected}
    if not any(abs(valid - value) <= 1.01 * value * errors[each] + 1e9 * HALF for each, value in expected.items()):
        shown = " or ".join(f"{value / 1e9:.7f}" for value in [*expected.values()][:3])
        yield f"{row.tv}: Valid FLOPS {valid / 1e9:.7f} GFLOP/s, FLOPS x (quality / target)^PENALTY {shown}"


def status_of(row: ReportedRow) -> str:
    """The status of a row."""
    return row.notes.get("Status", "").partition(";")[0]


def _lines(report: Report, path: str) -> Iterator[Line]:
    """A line for each list that the report is in, of its best row."""
    grouped: dict[ListKey, list[ReportedRow]] = {}
    for row in report.rows:
        grouped.setdefault(_key(report, row), []).append(row)
    for key, rows in grouped.items():
        yield _line(report, key, max(rows, key=_rank), path)
        if known := [row for row in rows if "valid_flops_per_watt" in row.scores]:
            best = max(known, key=_per_watt)
            yield replace(_line(report, replace(key, by=PER_WATT), best, path), score=_per_watt(best))


def _per_watt(row: ReportedRow) -> float:
    return row.scores["valid_flops_per_watt"]


def _key(report: Report, row: ReportedRow) -> ListKey:
    data = DATA.fullmatch(row.notes.get("Data", ""))
    name, letters = row.workload.name, {each.letter: each.name for each in PRECISIONS.values()}
    precision = letters.get(row.tv[4], "")
    dataset, level = cell(data[1] if data else ""), cell(report.summary.get("level", ""))
    return ListKey(REPORTED, name, dataset, status_of(row), level, size(name, row.p), precision)


def _line(report: Report, key: ListKey, row: ReportedRow, path: str) -> Line:
    scores, network = row.scores, NETWORK.fullmatch(row.notes.get("Network", ""))
    return Line(
        key,
        _rank(row),
        site=cell(report.notes.get("Header", "")),
        verdict=REPORTED,
        source=cell(path),
        seconds=row.seconds,
        system=_system(report),
        p=row.p,
        q=row.q,
        network=network[1] if network else "",
        framework=_framework(report),
        epochs=_epochs(report.settings.get((row.workload.name, "EPOCHS"), ())),
        precision=key.precision,
        flops=scores["flops"],
        valid_flops=scores.get("valid_flops"),
        ops=scores.get("highest_ops"),
        regulated_score=scores.get("regulated_score"),
        quality=scores["quality"],
        watts=scores.get("mean_watts"),
        valid_flops_per_watt=scores.get("valid_flops_per_watt"),
        time_to_quality=scores.get("time_to_quality"),
        efficiency=scores.get("efficiency"),
        ceiling_share=scores.get("roofline.shares.compute"),
        date=report.date[:10],
        version=cell(report.version),
    )


def _system(report: Report) -> str:
    found = MACHINE.fullmatch(report.notes.get("Machine", ""))
    if not found:
        return ""
    device = found[2] if found[3] == "cpu" else found[3]
    return f"{cell(device)} x {found[1]} node{'s' * (found[1] != '1')}"


def _framework(report: Report) -> str:
    found = re.search(r"torch [^,]{1,40}", report.notes.get("Software", ""))
    return cell(found[0]) if found else ""


def _epochs(values: Sequence[str]) -> int | None:
    """The epochs, where the input has one value of them."""
    return int(values[0]) if len(values) == 1 and values[0].isdecimal() and len(values[0]) < 9 else None

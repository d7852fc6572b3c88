"""The lines of a report without its result, which are never among verified ones."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from hpcai.formulas.eligibility import INVALID
from hpcai.formulas.precision import PRECISIONS
from hpcai.inputfile.run_keys import UNNAMED
from hpcai.ranking.lines import size, target
from hpcai.ranking.report_checks import exponent_of, rank_of
from hpcai.ranking.report_notes import dataset_of, network_of, status_of
from hpcai.ranking.report_parser import Report, ReportedRow
from hpcai.ranking.submission import PER_WATT, REPORTED, Apart, Line, ListKey, Submission
from hpcai.report.energy import NAMES
from hpcai.results.cells import cell, named

FIXED_WATTS = NAMES["fixed"]
MACHINE = re.compile(r"(\d+) nodes?; rank 0 on (.*), \d+ CPUs, \S+ GiB, device (.*), .*")


def submission(report: Report, path: str, digest: str) -> Submission | Apart:
    """The lines of a report without contradictions, or why it is not listed; `digest`: SHA-256 of the file."""
    valid = report.summary.get("valid", "")
    if not report.ended:
        return Apart(path, "from report: broken off, the line End of Tests. is missing")
    if valid == INVALID:
        return Apart(path, f"from report: {cell(report.final.removeprefix('Final Summary::'))}")
    return Submission(path, report.summary["fingerprint"], tuple(_lines(report, path)), REPORTED, digest)


def _lines(report: Report, path: str) -> Iterator[Line]:
    """A line for each list that the report is in, of its best row."""
    grouped: dict[ListKey, list[ReportedRow]] = {}
    for row in report.rows:
        grouped.setdefault(_key(report, row), []).append(row)
    for key, rows in grouped.items():
        yield _line(report, key, max(rows, key=rank_of), path)
        if known := [row for row in rows if _has_measured_power(row)]:
            best = max(known, key=_per_watt)
            yield replace(_line(report, replace(key, by=PER_WATT), best, path), score=_per_watt(best))


def _has_measured_power(row: ReportedRow) -> bool:
    return "valid_flops_per_watt" in row.scores and FIXED_WATTS not in row.notes.get("Energy", "")


def _per_watt(row: ReportedRow) -> float:
    return row.scores["valid_flops_per_watt"]


def _key(report: Report, row: ReportedRow) -> ListKey:
    name, letters = row.workload.name, {each.letter: each.name for each in PRECISIONS.values()}
    precision = letters.get(row.tv[4], "")
    dataset, level = cell(dataset_of(row)), cell(report.summary.get("level", ""))
    status, wanted = status_of(row), target(name, status_of(row), row.scores["target"], exponent_of(row, report) or 0.0)
    return ListKey(REPORTED, name, dataset, status, level, size(name, row.p), precision, wanted)


def _line(report: Report, key: ListKey, row: ReportedRow, path: str) -> Line:
    scores, network = row.scores, network_of(row)
    return Line(
        key,
        rank_of(row),
        site=cell(report.notes.get("Header", "")),
        verdict=REPORTED,
        source=cell(path),
        seconds=row.seconds,
        system=_system(report),
        p=row.p,
        q=row.q,
        network=network["name"] if network else "",
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
        tokens_per_second=scores.get("tokens_per_second"),
        efficiency=scores.get("efficiency"),
        ceiling_share=scores.get("roofline.shares.compute"),
        date=report.date[:10],
        version=cell(report.version),
        run=report.summary["fingerprint"],
        index=1 + report.rows.index(row),
    )


def _system(report: Report) -> str:
    name = cell(" ".join(report.settings.get(("", "SYSTEM"), (UNNAMED,))))
    found = MACHINE.fullmatch(report.notes.get("Machine", ""))
    if not found:
        return ""
    device = found[2] if found[3] == "cpu" else found[3]
    machine = f"{cell(device)} x {found[1]} node{'s' * (found[1] != '1')}"
    return named(name, machine)


def _framework(report: Report) -> str:
    found = re.search(r"torch [^,]{1,40}", report.notes.get("Software", ""))
    return cell(found[0]) if found else ""


def _epochs(values: Sequence[str]) -> int | None:
    """The epochs, where the input has one value of them."""
    return int(values[0]) if len(values) == 1 and values[0].isdecimal() and len(values[0]) < 9 else None

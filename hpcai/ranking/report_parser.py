"""Reads a printed report: its head, its rows with the lines below each, and its summary."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hpcai.errors import InputError
from hpcai.record.entry import scores_of
from hpcai.record.record import Record, fields
from hpcai.report.closing import END
from hpcai.report.rows import COLUMNS
from hpcai.workloads import registry
from hpcai.workloads.workload import Workload

MOST_IN_LINE = 400  # characters; a report has no line that is half as long
BANNER = re.compile(r"HPCAI bench (\S+): a LINPACK for AI machines    (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00)")
ROW = re.compile(
    r"(?P<tv>W[RC]\d\d[A-Z]\d[A-Z]\d) +(?P<n>\d+) +(?P<nb>\d+) +(?P<p>\d+) +(?P<q>\d+) +(?P<time>\d+\.\d\d) +"
    r"(?P<gflops>\d+\.\d+(?:e[+-]\d+)?)"
)
SCORE = re.compile(r" *(?P<name>\S.*?)= *(?P<value>-?\d+\.\d{7}|n/a.*?|not reached)(?: \.{6} (?P<verdict>[A-Z ]+))?")
NOTE = re.compile(r"(?P<name>[A-Z][a-z]{3,6}) *: (?P<text>.*)")
IN_MAP = re.compile(r" *\d+ +(?:\d+|idle) .* \d+  [\d,-]+")
MORE = re.compile(r" +\.\.\. and (\d{1,9}) more ranks, condensed")
KEY, DEFAULT = re.compile("[A-Z][A-Z0-9]+"), " (default)"


@dataclass(frozen=True)
class ReportedRow:
    """A row with what stands below it: `scores` by name of the field, `scales` by which they were divided.

    lines: all numbers by label. checks: their names, printed values and verdicts.
    """

    workload: Workload
    tv: str
    n: int
    p: int
    q: int
    seconds: float
    gflops: float
    scores: Mapping[str, float]
    scales: Mapping[str, float]
    lines: Mapping[str, float]
    checks: Sequence[tuple[str, str, str]]
    notes: Mapping[str, str]

    @property
    def verdicts(self) -> list[str]:
        """The verdicts of the checks."""
        return [verdict for _, _, verdict in self.checks]


@dataclass(frozen=True)
class Report:
    """A report: `settings` by section (empty for the run) and KEY, `summary` by name; `ranks` of the rank map."""

    version: str
    date: str
    ranks: int
    notes: Mapping[str, str]
    settings: Mapping[tuple[str, str], Sequence[str]]
    rows: Sequence[ReportedRow]
    summary: Mapping[str, str]
    final: str
    ended: bool
    failed: bool


def parsed(text: str) -> Report:
    """The report; InputError if the text is none, or has a row that cannot be read."""
    lines = [line[:MOST_IN_LINE] for line in text.splitlines()]
    banner = next(filter(None, map(BANNER.fullmatch, lines[:8])), None)
    summary = dict(line.split("=", 1) for line in _between(lines, "Begin of Summary section.", "=") if "=" in line)
    if banner is None:
        raise InputError("no report of this program: its first lines are others; allowed: report.txt of a run")
    heads = [place for place, line in enumerate(lines) if line == COLUMNS]
    ends = [*heads[1:], next((place for place, line in enumerate(lines) if line.startswith("Finished ")), len(lines))]
    head = lines[: (heads or ends)[0]]
    return Report(
        version=banner[1],
        date=banner[2],
        ranks=_ranks(head),
        notes=_notes(head),
        settings=dict(settings_of(head)),
        rows=[_row(lines[start + 2 : end]) for start, end in zip(heads, ends, strict=True)],
        summary=summary,
        final=next((line for line in lines if line.startswith("Final Summary::")), ""),
        ended=END in lines,
        failed=any(line.endswith("...... FAILED") for line in lines),
    )


def _between(lines: Sequence[str], first: str, mark: str) -> Iterator[str]:
    """The lines after the first one, as long as they have the mark."""
    start = lines.index(first) + 1 if first in lines else len(lines)
    for line in lines[start:]:
        if mark not in line:
            return
        yield line


def _ranks(lines: Sequence[str]) -> int:
    """Number of ranks of the rank map, with those that it leaves out."""
    more = next(filter(None, map(MORE.fullmatch, lines)), None)
    return sum(map(bool, map(IN_MAP.fullmatch, lines))) + (int(more[1]) if more else 0)


def _notes(lines: Sequence[str]) -> dict[str, str]:
    """Notes by their name; of several with one name the first."""
    found = [match for match in map(NOTE.fullmatch, lines) if match]
    return {match["name"]: match["text"] for match in reversed(found)}


def settings_of(lines: Sequence[str]) -> Iterator[tuple[tuple[str, str], Sequence[str]]]:
    """The echo of the input."""
    section = ""
    for line in lines:
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
            continue
        values, blank, key = line.removesuffix(DEFAULT).rstrip(" " * line.endswith(DEFAULT)).rpartition(" ")
        if blank and KEY.fullmatch(key):
            yield (section, key), values.split()


def _row(lines: Sequence[str]) -> ReportedRow:
    row = ROW.fullmatch(lines[0]) if lines else None
    workload = next(
        (each for each in registry.workloads() if row and each.digit and str(each.digit) == row["tv"][2]), None
    )
    if row is None or workload is None:
        raise InputError("a row of the report cannot be read")
    found = [match for match in map(SCORE.fullmatch, lines[1:]) if match]
    numbers = {match["name"]: float(match["value"]) for match in found if match["value"][:1] in "-0123456789"}
    scores = [*_scores(scores_of(registry.part(workload.name, "record").ENTRY), numbers)]
    return ReportedRow(
        workload=workload,
        tv=row["tv"],
        n=int(row["n"]),
        p=int(row["p"]),
        q=int(row["q"]),
        seconds=float(row["time"]),
        gflops=float(row["gflops"]),
        scores={name: value for name, value, _ in scores},
        scales={name: scale for name, _, scale in scores},
        lines=numbers,
        checks=[(match["name"], match["value"], match["verdict"]) for match in found if match["verdict"]],
        notes=_notes(lines),
    )


def _scores(kind: type[Record], numbers: Mapping[str, float], place: str = "") -> Iterator[tuple[str, float, float]]:
    """Name, value and scale of the printed fields of a record; of records within it names with a dot."""
    for each in fields(kind):
        if each.label in numbers:
            yield place + each.name, numbers[each.label] * each.scale, each.scale
        elif each.record and not each.several:
            yield from _scores(each.record, numbers, f"{place}{each.name}.")

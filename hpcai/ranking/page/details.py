"""What a row of the lists unfolds to: checks, status, machine, input and plots, read again from its file.

A file that is no longer the one that was verified has no details.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcai.errors import HpcaiError
from hpcai.ranking.contents import digest
from hpcai.ranking.examine import JSON, UNFIT, loaded
from hpcai.ranking.page.drawing import drawn
from hpcai.ranking.report_parser import Report, ReportedRow, parsed
from hpcai.record.entry import Row
from hpcai.record.loading import read
from hpcai.record.machine import Environment
from hpcai.record.result import Result
from hpcai.report.closing import summary_of
from hpcai.results.cells import cell, printable

MOST_FACTS, MOST_LINES, MOST_IN_LINE, MOST_WORDS = 60, 400, 200, 2000
MACHINE = ("Machine", "Software", "MPI")  # notes of a report
WITHOUT_RESULT = "a printed report alone: no plots, and nothing beyond what it prints"
CHANGED = "no details: the file is no longer the one that was verified"
Fact = tuple[str, str]  # name and text
Checked = tuple[str, str, str, str]  # a check: name, value, limit, verdict


@dataclass(frozen=True)
class Task:
    """A row whose details are asked for.

    name: of the row, unique in the page. digest: SHA-256 that the file had. index: the number of the test in its run,
    of a report that of its row, None of ceilings. plotted: whether plots are drawn.
    """

    name: str
    path: str
    digest: str
    index: int | None
    plotted: bool


@dataclass(frozen=True)
class Detail:
    """What a row unfolds to. plots: titles and SVG elements. note: why something is missing."""

    facts: Sequence[Fact] = ()
    status: str = ""
    reasons: Sequence[str] = ()
    checks: Sequence[Checked] = ()
    machine: Sequence[Fact] = ()
    input: str = ""
    plots: Sequence[tuple[str, str]] = ()
    note: str = ""


def detail(task: Task) -> Detail:
    """The details of a row; those of a file that cannot be read, or that has changed, are a note."""
    try:
        found = _of_result(task) if Path(task.path).suffix == JSON else _of_report(task)
        return found if digest(Path(task.path)) == task.digest else Detail(note=CHANGED)
    except (HpcaiError, *UNFIT) as error:
        return Detail(note=f"no details: {cell(error)}")


def _of_result(task: Task) -> Detail:
    result = loaded(read(Path(task.path)))
    test = next((test for test in result.tests if test.index == task.index), None)
    plots, note = _plots(task, result) if task.plotted else ([], "")
    return Detail(
        facts=[*_facts(result, test), *_file(task, summary_of(result).fingerprint)],
        status=test.status if test else "",
        reasons=_short(test.reasons if test else ()),
        checks=[*_checks(test)] if test else [],
        machine=[("Hosts", _hosts(result)), *_machine(result.environment)],
        input=_input(result),
        plots=plots,
        note=note,
    )


def _plots(task: Task, result: Result) -> tuple[list[tuple[str, str]], str]:
    """The plots; or none and why, where the numbers of a result cannot be drawn."""
    try:
        return drawn(result, task.index, task.name), ""
    except (*UNFIT, SyntaxError) as error:  # SyntaxError: text that XML cannot contain
        return [], f"no plots: {type(error).__name__}: {cell(error)}"


def _facts(result: Result, test: Row | None) -> Iterator[Fact]:
    yield "Header", " / ".join(map(cell, result.input.headers))
    if test:
        yield "Test", f"{test.index} of {summary_of(result).planned}, [{cell(test.workload)}]"
        yield "T/V, N, NB, P, Q", f"{test.tv}, {test.n}, {test.nb}, {test.p}, {test.q}"
        yield "Time", f"{test.seconds:.2f} s"
        yield "Gflops", f"{test.gflops:.4e}"
    yield "Run", f"{cell(result.date)}, version {cell(result.version)}"


def _file(task: Task, fingerprint: str) -> Iterator[Fact]:
    yield "File", cell(task.path, MOST_WORDS)
    yield "Fingerprint", fingerprint


def _checks(test: Row) -> Iterator[Checked]:
    for check in test.checks:
        value = "n/a" if check.value is None else f"{check.value:.7g}"
        yield cell(check.name), value, f"{check.limit:.7g}", check.verdict
    reached = "REACHED" if test.scores.reached else "MISSED"
    yield "quality, and its target", f"{test.scores.quality:.7g}", f"{test.scores.target:.7g}", reached


def _hosts(result: Result) -> str:
    """The hosts of the ranks that the result lists."""
    return ", ".join(_short([*dict.fromkeys(rank.host for rank in result.ranks)]))


def _machine(environment: Environment) -> Iterator[Fact]:
    yield "Job", f"ranks: {environment.ranks}, nodes: {environment.nodes}, GPUs of a node: {environment.accelerators}"
    yield "Processor", f"{cell(environment.processor)}, {environment.cpus} CPUs"
    yield "Memory", f"{environment.memory_bytes / 2**30:.1f} GiB"
    yield "Device", cell(environment.device)
    yield "System", cell(environment.system)
    yield "Python", cell(environment.python)
    yield "MPI", cell(environment.mpi)
    yield "Packages", cell(", ".join(f"{name} {version}" for name, version in environment.packages.items()), MOST_WORDS)
    yield from (("Warning", text) for text in _short(environment.warnings))
    yield from ((cell(name), cell(value)) for name, value in [*environment.variables.items()][:MOST_FACTS])


def _short(texts: Sequence[str]) -> list[str]:
    """The first of some texts, and how many more there are."""
    more = len(texts) - MOST_FACTS
    return [*map(cell, texts[:MOST_FACTS]), *([f"and {more} more"] if more > 0 else [])]


def _input(result: Result) -> str:
    """The input file, and the options of the command line."""
    lines = [line.rstrip() for line in result.input.text.splitlines()]
    lines += [f"--set {option}" for option in result.input.overrides]
    more = [f"... and {len(lines) - MOST_LINES} more lines"] if len(lines) > MOST_LINES else []
    return "\n".join([*(printable(line[:MOST_IN_LINE].expandtabs()) for line in lines[:MOST_LINES]), *more])


def _of_report(task: Task) -> Detail:
    """What a report has: the checks and notes below its row, the notes of its head, and the echo of its input."""
    report = parsed(Path(task.path).read_text("utf-8", "replace"))
    row = report.rows[(task.index or 1) - 1]
    status, *reasons = row.notes.get("Status", "").split("; ")
    return Detail(
        facts=[*_reported(report, row), *_file(task, cell(report.summary["fingerprint"]))],
        status=cell(status),
        reasons=_short(reasons),
        checks=[(cell(name), cell(value), "", cell(verdict)) for name, value, verdict in row.checks],
        machine=[(name, cell(text, MOST_WORDS)) for name, text in report.notes.items() if name in MACHINE],
        input="\n".join(printable(line) for line in [*_echo(report)][:MOST_LINES]),
        note=WITHOUT_RESULT,
    )


def _reported(report: Report, row: ReportedRow) -> Iterator[Fact]:
    yield "Header", cell(report.notes.get("Header", ""))
    yield "T/V, N, P, Q", f"{row.tv}, {row.n}, {row.p}, {row.q}"
    yield "Time", f"{row.seconds:.2f} s"
    yield "Gflops", f"{row.gflops:.4e}"
    yield "Run", f"{cell(report.date)}, version {cell(report.version)}"
    yield from ((name, cell(text, MOST_WORDS)) for name, text in row.notes.items() if name in ("Network", "Data"))


def _echo(report: Report) -> Iterator[str]:
    """The values of the KEYs, below the name of their section."""
    last = ""
    for (section, key), values in report.settings.items():
        if section != last:
            yield f"[{section}]"
        yield f"{' '.join(values):<14} {key}"
        last = section

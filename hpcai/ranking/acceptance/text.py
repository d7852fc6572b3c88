"""The comparison as text, and as comma-separated values."""

from collections.abc import Iterator, Sequence

from hpcai.ranking.acceptance.compare import Baseline, Line
from hpcai.ranking.acceptance.metrics import FAILED, Measured
from hpcai.ranking.submission import MOST_REASON, Apart
from hpcai.report.entries import comma_separated
from hpcai.report.text import counted
from hpcai.results.cells import cell, spreadsheet_safe

HEAD = ("Host", "Test", "Metric", "Value", "Baseline", "Change %", "Allowed", "Verdict")
RIGHT = ("Value", "Baseline", "Change %")


def differences(found: Sequence[Measured], baseline: Baseline) -> Iterator[str]:
    """Software in which results differ from the baseline, one line for each."""
    names = dict.fromkeys(name for each in found for name in (*baseline.software, *each.software))
    for name in names:
        expected = baseline.software.get(name, "none")
        others = dict.fromkeys(each.software.get(name, "none") for each in found)
        if different := [other for other in others if other != expected]:
            yield f"Differs : {cell(name)} {cell(expected)} of the baseline, {cell(', '.join(different))}"


def table(lines: Sequence[Line]) -> list[str]:
    """The lines below their heads; numbers to the right."""
    cells = [HEAD, *map(_cells, lines)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [_aligned(row, widths) for row in cells]


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    texts = zip(HEAD, row, widths, strict=True)
    return "  ".join(text.rjust(width) if head in RIGHT else text.ljust(width) for head, text, width in texts).rstrip()


def _cells(line: Line) -> tuple[str, ...]:
    verdict = f"{line.verdict}: {line.reason}" if line.reason else line.verdict
    change = "" if line.change is None else f"{100 * line.change:+.1f}"
    return line.host, line.part, line.metric, _number(line.value), _number(line.baseline), change, line.rule, verdict


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.5g}"


def closing(found: Sequence[Measured], lines: Sequence[Line], apart: Sequence[Apart]) -> Iterator[str]:
    """What was not compared, each result that failed with its metrics, and the verdict of all."""
    yield from (f"Not compared: {cell(each.path)}: {cell(each.reason, MOST_REASON)}" for each in apart)
    failed: dict[str, list[Line]] = {}
    for line in lines:
        if line.verdict == FAILED:
            failed.setdefault(line.path, []).append(line)
    for path, each in failed.items():
        yield f"FAILED: {each[0].host} ({cell(path)}): {'; '.join(map(_short, each))}"
    passed = len(found) - len(failed)
    words = f"{counted(len(found), 'result')} compared, {passed} PASSED, {len(failed)} FAILED"
    yield f"Acceptance: {words}, {len(apart)} not compared"


def _short(line: Line) -> str:
    if line.change is None:
        return f"{line.part} {line.metric or line.reason}"
    return f"{line.part} {line.metric} {100 * line.change:+.1f} %"


def csv_text(lines: Sequence[Line]) -> str:
    """All lines with the files that they are of."""
    rows = (dict(zip(HEAD, _values(line), strict=True)) | {"Source": spreadsheet_safe(line.path)} for line in lines)
    return comma_separated([*HEAD, "Source"], rows)


def _values(line: Line) -> tuple[str | float | None, ...]:
    change = None if line.change is None else 100 * line.change
    rest = (line.metric, line.value, line.baseline, change, line.rule, line.verdict)
    return spreadsheet_safe(line.host), line.part, *rest

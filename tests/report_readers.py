"""Reads a printed report as parsers made for HPL do, and line by line, and compares it with the JSON."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import weather_report_reader

from hpcai.record.loading import entry_of
from hpcai.record.machine import Memory
from hpcai.record.record import Record, fields
from hpcai.record.result import RunCeilings
from hpcai.report.telemetry import LINES
from hpcai.workloads.registry import workload

Json = dict[str, Any]
Lines = dict[str, tuple[str, str | None]]  # value and verdict by name

ROW = re.compile(r"^W[RC][0-9]{2}[A-Z][0-9][A-Z][0-9]\s+\d+\s+\d+\s+\d+\s+\d+\s+[\d.]+\s+[\d.eE+-]+$")
# Parsers in use search for no more than this: four integers, a decimal, a number.
LOOSE_ROW = re.compile(r"\d+\s+\d+\s+\d+\s+\d+\s+\d*\.\d*\s+[-+.\d]")
RESIDUAL = re.compile(
    r"^\|\|Ax-b\|\|_oo/\(eps\*\(\|\|A\|\|_oo\*\|\|x\|\|_oo\+\|\|b\|\|_oo\)\*N\)= +([\d.]+) \.{6} (PASSED|FAILED)$"
)
LINE = re.compile(r"^ *(?P<name>\S.*?)= *(?P<value>-?\d+\.\d{7}|not reached|n/a, .*?)(?: \.{6} (?P<verdict>[A-Z ]+))?$")
CEILINGS = {
    **{name: f"ceiling_{name}_gflops" for name in RunCeilings.__struct_fields__},
    "triad": "ceiling_triad_gbytes",
    "copy": "ceiling_copy_gbytes",
    "all_reduce_bus": "busbw_gbytes",
}
HEADER = "T/V                N    NB     P     Q               Time                 Gflops"


def labelled(record: Record) -> Iterator[tuple[str, Any]]:
    """Label and printed value of every field that declares a label, including records within it."""
    for field in fields(type(record)):
        value = getattr(record, field.name)
        if field.label and (field.absent or value is not None):
            yield field.label, None if value is None else value / field.scale
        elif isinstance(value, Record):
            yield from labelled(value)


def machine_named(test: Json) -> Json:
    """Memory and utilisation of a test, by their names in the report."""
    used, average = test["memory"], (test["telemetry"] or {}).get("average", {})
    values = dict(labelled(Memory(**{**used, "data": None})))
    names = {"processors": "processors", "GPUs": "gpus"}
    values |= {f"utilisation of the {words}, average": average.get(name) for words, name in names.items()}
    rates = {words: average.get(name) for name, words in LINES.items()}
    return values | {words: None if rate is None else rate / 1e9 for words, rate in rates.items()}


def training_named(test: Json) -> Json:
    """Every line below the checks of a test that trains models together, by its name."""
    entry: Any = entry_of(test)
    own = [name for name, _ in labelled(entry.scores)]
    values = dict(labelled(entry.scores))
    assert len(values) == len(own), "a label occurs twice"
    values |= weather_report_reader.classes_named(test) if "class_precision" in test["scores"] else {}
    values |= machine_named(test) | (dict(labelled(entry.raw.energy)) if entry.raw.energy else {})
    for record in (entry.raw.step_seconds, entry.raw.busy_seconds, entry.phases, *filter(None, [entry.wall])):
        values |= dict(labelled(record))
    return values


def search_named(test: Json) -> Json:
    """Every line below the checks of a search, by its name."""
    entry: Any = entry_of(test)
    raw = entry.raw
    values = dict(labelled(entry.scores))
    values |= {f"idle time of a group, {name}, s": getattr(raw.group_seconds.idle, name) for name in ("min", "max")}
    values |= dict(labelled(raw.coordinator)) | dict(labelled(raw.proposals)) | machine_named(test)
    values |= dict(labelled(raw.energy)) if raw.energy else {}
    return values | dict(labelled(entry.phases)) | (dict(labelled(entry.wall)) if entry.wall else {})


def printed(text: str, value: float | None, digits: int = 7) -> bool:
    """Whether a text is a number to its printed precision, or n/a where there is no number."""
    if value is None:
        return text == "not reached" or text.startswith("n/a, ")
    return abs(float(text) - value) <= 0.5000001 * 10**-digits + 1e-15 * abs(value)


def read_tests(report: str) -> list[tuple[list[str], Lines]]:
    """The words of each row, and value and verdict of each line below it by name."""
    tests: list[tuple[list[str], Lines]] = []
    for part in re.split(f"\n{re.escape(HEADER)}\n-+\n", report)[1:]:
        row, *lines = part[: part.index("\n\n")].split("\n")
        found = [line for line in map(LINE.match, lines) if line]
        tests.append((row.split(), {line["name"]: (line["value"], line["verdict"]) for line in found}))
        assert len(tests[-1][1]) == len(found), "a name occurs twice"
    return tests


def assert_report_matches(report: str, result: Json) -> None:
    """Every row, every line below it and the summary match the JSON."""
    tests = read_tests(report)
    assert len(tests) == len(result["tests"])
    for (row, lines), test in zip(tests, result["tests"], strict=True):
        assert row[:5] == [str(test[name]) for name in ("tv", "n", "nb", "p", "q")]
        assert printed(row[5], test["seconds"], 2)
        assert float(row[6]) == pytest.approx(test["gflops"], rel=5e-5, abs=5e-7)
        assert_lines(lines, test)
    assert_summary(report, result)


def assert_lines(lines: Lines, test: Json) -> None:
    values = {check["name"]: check["value"] for check in test["checks"]}
    quality = workload(test["workload"]).quality
    assert quality is not None
    reached = f"quality({quality.name.replace('-', '')})/target"
    values[reached] = test["scores"]["quality"] / test["scores"]["target"]
    values |= search_named(test) if "trials" in test else training_named(test)
    verdicts: dict[str, str] = {check["name"]: check["verdict"] for check in test["checks"]}
    verdicts[reached] = "REACHED" if test["scores"]["reached"] else "MISSED"
    assert list(lines) == list(values)
    for name, (value, verdict) in lines.items():
        assert printed(value, values[name]), name
        assert verdict == verdicts.get(name)


def assert_summary(report: str, result: Json) -> None:
    block = re.search(r"^Begin of Summary section\.\n(.*)^End of Summary section\.$", report, re.DOTALL | re.MULTILINE)
    assert block
    reported = dict(line.split("=", 1) for line in block[1].splitlines())
    summary = result["summary"]
    plain = {name: summary[name] for name in ("level", "valid", "tests", "passed", "failed", "skipped", "fingerprint")}
    plain |= {name: result[name] for name in ("schema", "version")}
    for place, best in enumerate(summary["best"]):
        prefix = f"{best['workload']}_" if place else ""
        values = {name: value for name, value in {**best, **best["figures"]}.items() if name != "figures"}
        assert values.keys() >= {"gflops", "quality", "target", "P", "Q", "time"} and best["figures"]
        plain |= {f"{prefix}{name}": value for name, value in values.items()}
    ceilings = {CEILINGS[name]: rate for name, rate in summary["ceilings"].items() if rate is not None}
    plain |= {name: rate / 1e9 for name, rate in ceilings.items()}
    repeated = {name for name in reported if name == "repetitions" or name.startswith("cv_percent_")}
    assert reported.keys() - repeated == plain.keys()
    for name in plain:
        value, expected = reported[name], plain[name]
        assert printed(value, expected) if isinstance(expected, float) else value == str(expected), name
        assert not re.search(r"\d[eE][-+]\d", value)
    counts = [summary[name] for name in ("tests", "passed", "failed", "skipped")]
    assert counts[0] == sum(counts[1:])
    assert "Finished {:6d} tests with the following results:\n".format(*counts[:1]) in report
    assert f"         {counts[1]:6d} tests completed and passed residual checks,\n" in report
    assert f"         {counts[2]:6d} tests completed and failed residual checks,\n" in report
    assert f"         {counts[3]:6d} tests skipped because of illegal input values.\n" in report


def assert_parsers_read_it(report: str, result: Json) -> None:
    """The lines that parsers search for are where they expect them, and nowhere else."""
    lines = report.split("\n")
    assert lines == [*report.splitlines(), ""]
    rows = [line for line in lines if ROW.match(line)]
    assert len(rows) == len(result["tests"])
    for line in lines:
        assert len(line) <= 200
        assert ("WR" in line or "WC" in line[:2]) == (line in rows), line
        assert bool(LOOSE_ROW.search(line)) == (line in rows), line
        assert " Gflops" not in line or line == HEADER, line
        assert "HOSTLIST" not in line
    for index, line in enumerate(lines):
        if line == HEADER:
            assert lines[index - 1 : index + 3] == ["=" * 80, HEADER, "-" * 80, rows.pop(0)]
            assert RESIDUAL.match(lines[index + 3])
    assert not rows
    if result["summary"]["complete"]:
        assert report.endswith("\nEnd of Tests.\n" + "=" * 80 + "\n") and report.count("End of Tests") == 1
    else:
        assert "End of Tests" not in report

"""The files of a result folder: report.txt, result.json, tables, series, each replaced as a whole; SHA256SUMS last."""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from hpcai import mllog
from hpcai.errors import HpcaiError
from hpcai.record.plain import text_parts
from hpcai.record.result import Result
from hpcai.report import series
from hpcai.report.banner import banner
from hpcai.report.checksums import Digests
from hpcai.report.closing import closing
from hpcai.report.entries import blocks, result_csv, rows_csv
from hpcai.report.replacing import publish, replace
from hpcai.search.paths import test_of
from hpcai.workloads import registry

REPORT, SERIES, RESULT = "report.txt", "series.h5", "result.json"
MANY, NUMBER = 5, re.compile(r"-\d+\.")  # files of tests, whose names have the test's number


def create_folder(output: str, date: datetime, job: str = "") -> Path:
    """A new folder results/<output>-<UTC time>/ below the current directory; HpcaiError if it cannot be made.

    job: number of the job, which is added: jobs of an array may begin in one second.
    """
    name = f"{output}-{date:%Y%m%dT%H%M%SZ}" + f"-job{job}" * bool(job)
    for attempt in range(1, 1000):
        folder = Path("results") / (name if attempt == 1 else f"{name}-{attempt}")
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError as error:
            if not Path("results").is_dir():
                raise HpcaiError(f"cannot make the result folder {folder}: {error.strerror}") from None
        except OSError as error:
            raise HpcaiError(f"cannot make the result folder {folder.absolute()}: {error.strerror}") from None
    raise HpcaiError(f"cannot make the result folder {name}: too many of that name")


def report(result: Result) -> str:
    """The whole printed report of a result."""
    return "".join(_report_parts(result))


def _report_parts(result: Result) -> Iterator[str]:
    """The same in parts: a test at a time."""
    yield banner(result)
    yield from blocks(result)
    yield closing(result)


def texts(result: Result) -> dict[str, Iterable[str]]:
    """Contents by name of the files beside result.json, in parts; empty files are left out."""
    found = {"result.csv": result_csv(result)}
    for workload in registry.workloads():
        if workload.rows:
            found[f"{workload.rows}.csv"] = rows_csv(getattr(result, workload.rows))
        tests = [test for test in result.tests if test.workload == workload.name]
        files = registry.optional_part(workload.name, "files")
        found |= files.texts(tests) if files and tests else {}
    tables = {name: [text] for name, text in found.items() if text}
    return {REPORT: _report_parts(result), **tables}


def names() -> list[str]:
    """Names of all text files that can lie beside a result."""
    found = [REPORT, "result.csv", *(f"{each.rows}.csv" for each in registry.workloads() if each.rows)]
    parts = (registry.optional_part(workload.name, "files") for workload in registry.workloads())
    return [*found, *(name for part in parts if part for name in part.TEXTS)]


def listed(names: Iterable[str]) -> str:
    """Names of files in one line; those of MANY and more that differ in a number only are counted."""
    alike: dict[str, list[str]] = {}
    for name in sorted(names):
        alike.setdefault(NUMBER.sub("-N.", name), []).append(name)
    counted = ([f"{len(each)} {form}"] if len(each) >= MANY else each for form, each in alike.items())
    *first, last = (name for each in counted for name in each)
    return f"{', '.join(first)} and {last}"


def contents(result: Result) -> dict[str, Iterable[bytes]]:
    """Contents by name of all files, in parts, result.json last."""
    found: dict[str, Iterable[bytes]] = {name: map(str.encode, parts) for name, parts in texts(result).items()}
    if vectors := series.contents(result):
        found[SERIES] = [vectors]
    return {**found, RESULT: result_parts(result)}


def result_parts(result: Result) -> Iterator[bytes]:
    """The content of result.json, in parts."""
    return (part.encode() for part in text_parts(result))


def write(folder: Path, result: Result, known: Digests | None = None) -> None:
    """Write or replace the files, SHA256SUMS last. known: digests of the other files of the folder, kept by a run.

    Files of a search that goes on are not listed: they change.
    """
    measured: list[Any] = [*result.tests, *filter(None, [result.broken_off])]
    made = contents(result)
    listed = {None, *(test.index for test in measured)}
    others = (known or Digests(folder)).of_others(made, recorded_digests(result))
    publish(folder, made, {name: digest for name, digest in others.items() if test_of(name) in listed})


def recorded_digests(result: Result) -> dict[str, str]:
    """SHA-256 by path of the files whose writers recorded it in the result."""
    found: dict[str, str] = {}
    tests: list[Any] = [*result.tests, *filter(None, [result.broken_off])]
    for test in tests:
        files = registry.optional_part(test.workload, "files")
        found |= files.digests(test) if files and test.raw is not None else {}
    return found


def write_system(folder: Path, description: str) -> None:
    """Write the system description of the MLPerf logs, and their folder."""
    path = folder / mllog.FOLDER / mllog.SYSTEM
    try:
        path.parent.mkdir()
    except OSError as error:
        raise HpcaiError(f"cannot make the folder {path.parent.absolute()}: {error.strerror}") from None
    replace(path, description.encode())

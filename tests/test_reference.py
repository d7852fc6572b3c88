"""docs/METRICS.md and docs/RESULT.md: their tables equal the declarations, and contain every field of a result."""

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Annotated, ClassVar

import pytest
from launch import ROOT

from hpcai.record.check_declarations import TRAINING_CHECKS, CheckDeclaration
from hpcai.record.record import Count, Record, about, fields
from hpcai.record.reference import MARKED, declared, is_record, renewed, rows, table
from hpcai.record.result import Result
from hpcai.record.roofline import CeilingShares, Roofline
from hpcai.record.training_scores import TrainingScores
from hpcai.workloads import registry

PATHS = [ROOT / "docs" / "METRICS.md", ROOT / "docs" / "RESULT.md"]
PAGES = [path.read_text("utf-8") for path in PATHS]


class Part(Record):
    """A part."""

    seconds: Annotated[float, about("a time", unit="s", label="time, s", absent="not reached")]


class Base(Record):
    """A record."""

    count: Annotated[Count, about("|a - b|")]


class Whole(Base):
    """A record that has more."""

    KEPT: ClassVar[int] = 3
    parts: Annotated[tuple[Part, ...], about("the parts")]


def test_the_pages_are_up_to_date() -> None:
    assert renewed(PAGES) == PAGES, "renew them: python -P -m hpcai.record.reference docs/METRICS.md docs/RESULT.md"


def kinds(kind: type[Record], found: set[type[Record]]) -> set[type[Record]]:
    """A record and all records within it."""
    if kind not in found:
        found.add(kind)
        for field in fields(kind):
            if field.record:
                kinds(field.record, found)
    return found


def records_of_results() -> Iterator[type[Record]]:
    """The record of a result, and those of tests of every workload."""
    yield Result
    for workload in registry.workloads():
        record = registry.part(workload.name, "record")
        yield from filter(None, (record.ENTRY, record.STOPPED))


def test_every_field_of_a_result_is_in_a_table() -> None:
    own = {found for page in PAGES for mark in MARKED.finditer(page) if is_record(found := declared(mark[1]))}
    shown = {field for kind in own for _, field in rows(kind, own)}
    used: set[type[Record]] = set()
    for kind in records_of_results():
        kinds(kind, used)
    assert not {(kind.__name__, field.name) for kind in used for field in fields(kind) if field not in shown}


def test_every_field_has_a_description() -> None:
    used: set[type[Record]] = set()
    for kind in records_of_results():
        kinds(kind, used)
    assert not [(kind.__name__, field.name) for kind in used for field in fields(kind) if not field.description]


def test_the_table_of_a_record() -> None:
    assert table(Whole) == (
        "`Whole`: A record that has more.\n\n"
        "| printed line | field | unit | meaning |\n| --- | --- | --- | --- |\n"
        "|  | `count` |  | \\|a - b\\| |\n|  | `parts[]` |  | the parts |\n"
        "| `time, s` | `parts[].seconds` | s | a time; else `not reached` |\n"
    )


def test_a_record_with_a_table_of_its_own_is_one_row() -> None:
    text = table(Whole, {Base, Part, Whole})
    assert text == (
        "`Whole`: A record that has more. Fields added to `Base`, or changed:\n\n"
        "| field | unit | meaning |\n| --- | --- | --- |\n| `parts[]` |  | the parts, see `Part` |\n"
    )


def test_the_table_of_checks() -> None:
    checks = (
        CheckDeclaration("|a|", "a thing", limit=0.25),
        CheckDeclaration("b", "another", limit=None, limit_key="B"),
        CheckDeclaration("c", "a third", above=True),
    )
    lines = table(checks).splitlines()[2:]
    assert lines == [r"| `\|a\|` | a thing | 0.25 |", "| `b` | another | `B` |", "| `c` | a third | above 0 |"]


def test_readme_is_short_and_shows_printed_lines() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    (shown,) = re.findall(r"^```text\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    names = {name.strip() for name in re.findall(r"^(.*\S)= +\d+\.\d{7}\b", shown, re.MULTILINE)}
    printed = {check.name for check in TRAINING_CHECKS} | {field.label for field in fields(TrainingScores)}
    printed |= {field.label for part in (Roofline, CeilingShares) for field in fields(part)}
    assert {name for name in names if not name.startswith("quality(")} <= printed
    assert len(names) > 10 and len(shown.splitlines()) == 25 and len(readme.splitlines()) <= 150


@pytest.mark.parametrize("report", ["report.txt", "weather/report.txt"])
def test_every_printed_line_of_a_row_is_on_the_page(report: str) -> None:
    text = (ROOT / "tests" / "golden" / report).read_text("utf-8")
    names = {name.strip() for name in re.findall(r"^(.*\S)= +(?:\d+\.\d{7}|n/a)", text, re.MULTILINE)}
    page = PAGES[0].replace("\\|", "|")
    assert len(names) > 60 and not {name for name in names if f"`{generic(name)}`" not in page}


def generic(name: str) -> str:
    """A printed name as on the page, for any name of the quality and any class."""
    return re.sub(r"(overlap of 0\.5, ).+", r"\1CLASS", re.sub(r"^quality\(\w+\)", "quality(NAME)", name))


def test_the_command_renews_pages(tmp_path) -> None:
    copies = [tmp_path / path.name for path in PATHS]
    for copy, page in zip(copies, PAGES, strict=True):
        copy.write_text(MARKED.sub(r"\1\2", page), "utf-8")
    subprocess.run([sys.executable, "-m", "hpcai.record.reference", *copies], cwd=ROOT, check=True)
    assert [copy.read_text("utf-8") for copy in copies] == PAGES


@pytest.mark.parametrize("page", PAGES, ids=[path.name for path in PATHS])
def test_every_marker_has_its_end(page: str) -> None:
    assert page.count("<!-- table ") == page.count("<!-- end -->") == len([*MARKED.finditer(page)])

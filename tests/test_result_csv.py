"""The columns of result.csv that say where and when a test ran."""

import csv

import pytest
from msgspec import structs
from small_run import golden

from hpcai.ranking.lines import lines_of
from hpcai.record.loading import result_of
from hpcai.record.problem import RunValue
from hpcai.record.result import Result
from hpcai.report.entries import result_csv


def lines(result: Result) -> list[dict[str, str]]:
    return [*csv.DictReader(result_csv(result).splitlines())]


def with_header(header: str) -> Result:
    """The stored result with another first header line."""
    result = result_of(golden())
    return structs.replace(result, input=structs.replace(result.input, headers=(header, "second")))


def test_each_line_says_where_and_when() -> None:
    result = result_of(golden())
    assert len(lines(result)) == len(result.tests) > 1
    for line in lines(result):
        assert (line["site"], line["version"]) == (result.input.headers[0], result.version)
        assert line["system"] == line["machine"] == f"{result.environment.processor} x 1 node"
        assert (line["ranks"], line["nodes"], line["date"]) == ("2", "1", result.date)
        assert line["status"] == "UNOFFICIAL"


def test_the_system_is_called_as_in_lists() -> None:
    result = result_of(golden())
    assert {line["system"] for line in lines(result)} == {line.system for line in lines_of(result, "here")}


def test_a_named_system_stands_before_its_machine() -> None:
    result = result_of(golden())
    run = {**result.input.run, "SYSTEM": RunValue(value="Some System, GPU part", default=False)}
    result = structs.replace(result, input=structs.replace(result.input, run=run))
    for line in lines(result):
        assert line["system"] == f"Some System, GPU part, {line['machine']}"
    assert {line.system for line in lines_of(result, "here")} == {line["system"] for line in lines(result)}


@pytest.mark.parametrize(
    ("header", "cell"),
    [("=HYPERLINK(1)", "'=HYPERLINK(1)"), ("@x", "'@x"), ('a,"b\x1b[31m', 'a,"b?[31m'), ("", ""), ("a\tb", "a b")],
)
def test_a_hostile_header_stays_in_its_cell(header: str, cell: str) -> None:
    (found,) = {line["site"] for line in lines(with_header(header))}
    assert found == cell


def test_a_result_without_rows_has_no_table() -> None:
    assert result_csv(structs.replace(result_of(golden()), tests=())) == ""

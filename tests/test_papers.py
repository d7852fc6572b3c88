"""Operation counts in docs/PAPERS.md are the program's, and have the published digits except where the page says so."""

import re
from typing import NamedTuple

import pytest
from launch import ROOT

from hpcai.networks import build
from hpcai.opcount import count

DOCUMENT = ROOT / "docs" / "PAPERS.md"
COUNTS = r"(\S*) ?\| ([\d,]+) \|"  # published and ours
ROW = re.compile(rf"^\| (\w+) (v[\d.]+) \| (\w+) \| ([\w ]+) \| {COUNTS} {COUNTS}$", re.MULTILINE)
DEPARTURES = {"global pool", "softmax"}  # their published digits follow from no stated formula


class Row(NamedTuple):
    """A line of the table of operation counts."""

    network: str
    variant: str
    rule: str
    layers: str
    published: tuple[str, str]
    ours: tuple[int, int]


def rows(text: str) -> list[Row]:
    """The table's lines, forward before backward."""
    return [row(*match.groups()) for match in ROW.finditer(text)]


def row(network: str, variant: str, rule: str, layers: str, *cells: str) -> Row:
    """A line from its cells."""
    forward, backward = (int(cell.replace(",", "")) for cell in cells[1::2])
    return Row(network, variant, rule, layers, (cells[0], cells[2]), (forward, backward))


def counted(line: Row) -> tuple[int, int]:
    """The program's count of a line's layers, forward and backward."""
    result = count(build(line.network, (224, 224), 3, 1000, line.variant), line.rule)
    layers = [layer for layer in result.layers if line.layers in (layer.kind, "total")]
    return sum(layer.forward for layer in layers), sum(layer.backward for layer in layers)


def rounds_to(value: int, published: str) -> bool:
    """Whether a count has the published digits; an empty cell has none."""
    mantissa = published.partition("E")[0]
    return not published or f"{value:.{len(mantissa) - 2}e}" == f"{float(published):.{len(mantissa) - 2}e}"


ROWS = rows(DOCUMENT.read_text(encoding="utf-8"))


def test_every_line_of_the_table_is_read() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert len(ROWS) == len(re.findall(r"^\| resnet", text, re.MULTILINE)) >= 14


@pytest.mark.parametrize("line", ROWS, ids=lambda line: "-".join(line[:4]))
def test_counts_are_those_of_the_program(line: Row) -> None:
    assert line.ours == counted(line)


@pytest.mark.parametrize("line", ROWS, ids=lambda line: "-".join(line[:4]))
def test_counts_have_the_published_digits(line: Row) -> None:
    agrees = all(map(rounds_to, line.ours, line.published))
    assert agrees != (line.layers in DEPARTURES)


def test_a_wrong_digit_is_detected() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    [wrong] = set(rows(text.replace("12,290,000", "12,290,001"))) - set(ROWS)
    assert wrong.ours != counted(wrong)
    assert rounds_to(7_711_850_496, "7.71E9")
    assert not rounds_to(7_711_850_496, "7.72E9")
    assert not rounds_to(7_711_850_496, "7.71E8")

"""The rows of the page: columns of the lists with values, cells with the number by which they are sorted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hpcai.ranking.lists import Ranked
from hpcai.ranking.page.details import Detail
from hpcai.ranking.submission import LITERATURE, Line
from hpcai.ranking.table import COLUMNS, RANK, Column
from hpcai.ranking.text import NEVER, description

RANK_COLUMN = Column(RANK, lambda line: None, "d")
FURTHER = (Column("Source", lambda line: line.source), Column("Note", lambda line: line.note))
APART = (Column("File", lambda line: None), Column("Reason", lambda line: None))
NAME, NUMBER, PROSE, PLAIN = "name", "number", "prose", "plain"  # kinds of cells


@dataclass(frozen=True)
class Cell:
    """A cell: its text; `exact`: the number by which it is sorted, where the text has fewer digits."""

    text: str
    kind: str
    exact: float | None = None


@dataclass(frozen=True)
class Shown:
    """A row of a list, with what it unfolds to; the id is unique in the page."""

    id: str
    site: str
    file: str
    cells: Sequence[Cell]
    detail: Detail | None


@dataclass(frozen=True)
class Listed:
    """A list as the template shows it."""

    id: str
    origin: str
    name: str
    description: str
    columns: Sequence[Column]
    rows: Sequence[Shown]

    @property
    def unfolds(self) -> bool:
        """Whether rows have details."""
        return any(row.detail for row in self.rows)


def row_name(number: int, place: int) -> str:
    """The name of a row of a list, unique in the page."""
    return f"list-{number}-row-{place + 1}"


def listed(each: Ranked, number: int, details: Mapping[str, Detail]) -> Listed:
    """A list with the details of its rows by their names."""
    columns = [*_columns(each)]
    names = [row_name(number, place) for place in range(len(each.lines))]
    rows = [
        _shown(name, place, line, columns, details.get(name))
        for name, (place, line) in zip(names, enumerate(each.lines, start=1), strict=True)
    ]
    title = description(each)
    return Listed(f"list-{number}", each.key.origin, each.key.name, title, [RANK_COLUMN, *columns], rows)


def _columns(each: Ranked) -> list[Column]:
    """The columns that have values, those that the text keeps longest first; of literature the publications as well."""
    found = sorted((column for column in COLUMNS if column.priority < NEVER), key=lambda column: column.priority)
    more = FURTHER if each.key.origin == LITERATURE else FURTHER[1:]
    return [column for column in (*found, *more) if any(map(column.text, each.lines))]


def _shown(name: str, rank: int, line: Line, columns: Sequence[Column], detail: Detail | None) -> Shown:
    cells = [Cell(str(rank), NUMBER), *(_cell(line, column) for column in columns)]
    return Shown(name, line.site, "" if line.key.origin == LITERATURE else line.source, cells, detail)


def _cell(line: Line, column: Column) -> Cell:
    value, text = column.value(line), column.text(line)
    if column is COLUMNS[0]:
        return Cell(text, NAME)
    if column.numeric:
        return Cell(text, NUMBER, value if isinstance(value, float) else None)
    return Cell(text, PROSE if column in FURTHER else PLAIN)

"""Columns of the lists, and the lists as comma-separated values."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from hpcai.ranking.lists import Ranked
from hpcai.ranking.submission import Line
from hpcai.report.entries import comma_separated
from hpcai.results.cells import Value, spreadsheet_safe

PETA = 1e15
PER_WATT_HEAD = "Valid GFLOPS/W"
COUNTS = ("Accelerators", "Ranks", "P", "Q", "Epochs")


@dataclass(frozen=True)
class Column:
    """A column: its heading, the value of a line, how the text shows it, and how soon the text leaves it out.

    priority: the text takes the columns of the lowest ones first; 0 stands in every list.
    """

    head: str
    value: Callable[[Line], Value]
    shown: str = ""
    priority: int = 0

    @property
    def numeric(self) -> bool:
        """Whether its values are numbers."""
        return bool(self.shown) or self.head in COUNTS

    def text(self, line: Line) -> str:
        """The value of a line as it is shown; empty where there is none."""
        value = self.value(line)
        return "" if value is None else format(value, self.shown)


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else value / scale


COLUMNS = (
    Column("Site", lambda line: line.site),
    Column("System", lambda line: line.system, "", 1),
    Column("Accelerators", lambda line: line.accelerators, "", 3),
    Column("Ranks", lambda line: line.ranks, "", 5),
    Column("P", lambda line: line.p, "", 1),
    Column("Q", lambda line: line.q, "", 1),
    Column("Workload", lambda line: line.key.section, "", 99),
    Column("Dataset", lambda line: line.key.subject if line.verdict != "PASSED" else "", "", 99),
    Column("Network", lambda line: line.network, "", 4),
    Column("Rule", lambda line: line.rule, "", 9),
    Column("Framework", lambda line: line.framework, "", 8),
    Column("Precision", lambda line: line.precision, "", 9),
    Column("Epochs", lambda line: line.epochs, "", 5),
    Column("PFLOPS", lambda line: _scaled(line.flops, PETA), ".4g", 1),
    Column("Valid PFLOPS", lambda line: _scaled(line.valid_flops, PETA), ".4g"),
    Column("Recomputed Valid PFLOPS", lambda line: _scaled(line.recomputed, PETA), ".4g"),
    Column("OPS", lambda line: line.ops, ".4e"),
    Column("Regulated score", lambda line: line.regulated_score, ".4e", 1),
    Column("Quality", lambda line: line.quality, ".4f", 1),
    Column("Time to quality", lambda line: line.time_to_quality, ".1f", 2),
    Column("Tokens/s", lambda line: line.tokens_per_second, ".4g", 2),
    Column("Efficiency %", lambda line: _scaled(line.efficiency, 0.01), ".1f", 5),
    Column("Kernel ceiling", lambda line: line.ceiling, ".4e", 3),
    Column("% of ceiling", lambda line: _scaled(line.ceiling_share, 0.01), ".1f", 3),
    Column("kW", lambda line: _scaled(line.watts, 1e3), ".2f", 4),
    Column("Power of", lambda line: line.covers, "", 6),
    Column(PER_WATT_HEAD, lambda line: _scaled(line.valid_flops_per_watt, 1e9), ".4g", 3),
    Column("CV %", lambda line: _scaled(line.cv, 0.01), ".2f", 4),
    Column("Level", lambda line: line.key.level, "", 99),
    Column("Date", lambda line: line.date, "", 5),
    Column("Version", lambda line: line.version, "", 7),
    Column("Verdict", lambda line: line.verdict, "", 1),
)
RANK, LIST, SOURCE, NOTE = "Rank", "List", "Source", "Note"


def csv_text(lists: Iterable[Ranked]) -> str:
    """All lists with all columns, one line per line of a list; LIST is the name of its list."""
    heads = (RANK, *(column.head for column in COLUMNS), "Status", LIST, SOURCE, NOTE)
    return comma_separated(heads, (line for each in lists for line in _csv_lines(each)))


def _csv_lines(each: Ranked) -> Iterator[dict[str, Value]]:
    for rank, line in enumerate(each.lines, start=1):
        cells = {column.head: column.value(line) for column in COLUMNS}
        more = {"Status": each.key.status, LIST: each.key.name, SOURCE: line.source, NOTE: line.note}
        yield {name: spreadsheet_safe(value) for name, value in {RANK: rank, **cells, **more}.items()}

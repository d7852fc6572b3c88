"""The lists as text: of the columns those that a list has values for, as many as fit into the width."""

from collections.abc import Iterable, Iterator, Sequence

from hpcai.formulas import score
from hpcai.formulas.official_rules import IMAGES
from hpcai.ranking.lists import Ranked
from hpcai.ranking.submission import LITERATURE, MOST_REASON, REPORTED, Apart, Line, ListKey
from hpcai.ranking.table import COLUMNS, PER_WATT_HEAD, RANK, Column
from hpcai.results.cells import cell
from hpcai.workloads import registry
from hpcai.workloads.workload import Workload

WIDTH, WIDEST, NEVER = 132, 28, 99  # characters of a line; of a cell; the priority of what stands in the title
GAP = "  "
RECOMPUTED = (
    f"; Recomputed by {score.PUBLISHED_OPERATIONS / 1e9:.1f} GFLOP an image and "
    f"(top-1 / {IMAGES.target})^{score.PUBLISHED_PENALTY:g}"
)
# what scores that rank are called
ORDER = {"valid_flops": "Valid FLOPS", "highest_ops": "highest OPS", "valid_flops_per_watt": "Valid FLOPS per watt"}
HEADS = {"valid_flops": "Valid PFLOPS", "highest_ops": "OPS", "": "Kernel ceiling"}  # their columns


def text_of(lists: Iterable[Ranked], apart: Sequence[Apart]) -> str:
    """All lists, and then what is not ranked."""
    lines = [line for each in lists for line in (*_list(each), "")]
    if apart:
        lines += ["Not ranked:", *_apart(apart)]
    return "".join(f"{line}\n" for line in lines)


def _apart(apart: Iterable[Apart]) -> Iterator[str]:
    yield from (f"  {cell(each.path)}: {cell(each.reason, MOST_REASON)}" for each in apart)


def _list(each: Ranked) -> Iterator[str]:
    columns = _fitting(each.lines, _ordering(each.key))
    cells = [[RANK, *(column.head for column in columns)], *_rows(each.lines, columns)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    yield f"List {each.key.name}"
    yield description(each)
    yield from (GAP.join(_aligned(row, widths, columns)).rstrip() for row in cells)
    yield from _notes(each.lines)


def description(each: Ranked) -> str:
    """What a list is ordered by, and where its numbers are from."""
    key, workload = each.key, registry.workload(each.key.section)
    if key.origin == LITERATURE:
        recomputed = any(line.recomputed is not None for line in each.lines)
        return f"literature: published figures, not verified{_direction(workload)}{RECOMPUTED * recomputed}"
    by = ORDER["valid_flops_per_watt"] if key.by else ORDER.get(workload.ranked_by, workload.ranked_by)
    order = f"ordered by {by or key.subject}{_direction(workload)}"
    return order + ("; from report: printed numbers only, not verified" if key.origin == REPORTED else "; verified")


def _direction(workload: Workload) -> str:
    """What the column Quality is, where smaller is better: only there it has to be said."""
    of = workload.quality
    return f"; Quality: {of.name}, smaller is better" if of and not of.larger_is_better else ""


def _notes(lines: Iterable[Line]) -> Iterator[str]:
    """Notes on lines, and the publications of literature."""
    lines = [*lines]
    yield from (f"  {line.site}: {line.note}" for line in lines if line.note)
    published = dict.fromkeys(line.source for line in lines if line.verdict == LITERATURE)
    yield from (f"  source: {source}" for source in published)


def _ordering(key: ListKey) -> str:
    """The heading of the column by which a list is ordered."""
    return PER_WATT_HEAD if key.by else HEADS.get(registry.workload(key.section).ranked_by, "")


def _fitting(lines: Sequence[Line], ordering: str) -> list[Column]:
    """Columns with values, in their order; of those that do not fit the least important are left out.

    The column by which the list is ordered stands in every list.
    """
    filled = [column for column in COLUMNS if column.priority < NEVER and any(_texts(lines, column))]
    left, chosen = WIDTH - len(RANK), set[Column]()
    for column in sorted(filled, key=lambda each: each.priority * (each.head != ordering)):
        width = len(GAP) + max(len(column.head), *map(len, _texts(lines, column)))
        if column.priority == 0 or column.head == ordering or width <= left:
            chosen.add(column)
            left -= width
    return [column for column in filled if column in chosen]


def _rows(lines: Sequence[Line], columns: Sequence[Column]) -> list[list[str]]:
    texts = zip(*(_texts(lines, column) for column in columns), strict=True)
    return [[str(rank), *row] for rank, row in enumerate(texts, start=1)]


def _texts(lines: Iterable[Line], column: Column) -> list[str]:
    return [_text(column, line) for line in lines]


def _text(column: Column, line: Line) -> str:
    found = column.text(line)
    return found if len(found) <= WIDEST else f"{found[: WIDEST - 3]}..."


def _aligned(row: Sequence[str], widths: Sequence[int], columns: Sequence[Column]) -> Iterator[str]:
    """Texts to the left, numbers to the right."""
    numeric = [True, *(column.numeric for column in columns)]
    for found, width, right in zip(row, widths, numeric, strict=True):
        yield found.rjust(width) if right else found.ljust(width)

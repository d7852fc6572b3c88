"""Lists of published figures, beside the lists of the same workload and data. Nothing of them is verified."""

from collections.abc import Iterable, Iterator

from hpcai.formulas.published import Published
from hpcai.ranking.lists import Ranked
from hpcai.ranking.submission import LITERATURE, Line, ListKey
from hpcai.workloads import registry


def literature() -> Iterator[Ranked]:
    """The published rows of each workload that has some."""
    for workload in registry.workloads():
        if part := registry.optional_part(workload.name, "literature"):
            key = ListKey(LITERATURE, workload.name, part.DATASET)
            lines = [_line(key, row) for row in part.PUBLISHED]
            yield Ranked(key, tuple(sorted(lines, key=lambda line: -line.score)))


def beside(lists: Iterable[Ranked]) -> list[Ranked]:
    """The published rows of the workloads and data that lists have."""
    asked = {(each.key.section, each.key.subject) for each in lists}
    return [each for each in literature() if (each.key.section, each.key.subject) in asked]


def _line(key: ListKey, row: Published) -> Line:
    return Line(
        key,
        row.valid_flops or row.ops or row.flops or 0.0,
        site=row.site,
        verdict=LITERATURE,
        source=row.source,
        system=row.system,
        accelerators=row.accelerators,
        flops=row.flops,
        valid_flops=row.valid_flops,
        recomputed=row.recomputed,
        ops=row.ops,
        quality=row.quality,
        time_to_quality=row.minutes * 60 if row.minutes else None,
        precision=row.precision,
        date=row.year,
        note=row.note,
    )

"""Table VII of AIPerf: operations of ResNet-50 by different ways of counting; here by the three rules."""

from collections.abc import Iterator, Sequence

from hpcai.formulas.score import PUBLISHED_OPERATIONS
from hpcai.opcount import RULES
from hpcai.record.entry import Row
from hpcai.study.figure import Drawing
from hpcai.study.figures import FIGURES
from hpcai.study.figures.aiperf_table3 import AIPerfTable3
from hpcai.study.operation_counts import OperationCounts, columns, compared, counted
from hpcai.study.scaling import GIGA

PARTS = ("forward", "backward", "both")


@FIGURES.register("aiperf_table7")
class AIPerfTable7(OperationCounts):
    """A row for each rule on v1 and v1.5; published are the totals of Table III and the constant of HPC AI500."""

    title = "Operations of ResNet-50 by rule of counting"
    paper = "AIPerf, Table VII: digits not in a public copy; published: Table III and 23.0 GFLOP of HPC AI500"

    def draw(self, tests: Sequence[Row]) -> Drawing:
        found = {f"{rule}, {variant}": counted(variant, rule) for rule in RULES for variant in ("v1", "v1.5")}
        rows = [
            compared(name, (each.forward, each.backward, each.total), [*_published(name)])
            for name, each in found.items()
        ]
        bars = [
            (name, {"forward": each.forward / GIGA, "backward": each.backward / GIGA}) for name, each in found.items()
        ]
        return Drawing(columns("rule, variant", PARTS), tuple(rows), bars=tuple(bars))


def _published(name: str) -> Iterator[float | None]:
    """Digits forward, backward and in all of a rule's own paper, which counts v1."""
    if name == "aiperf, v1":
        yield from (*AIPerfTable3.digits["total"], AIPerfTable3.whole)
    else:
        yield from (None, None, PUBLISHED_OPERATIONS if name.startswith("hpcai500") else None)

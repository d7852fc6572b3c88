"""Figure 4 of HPC AI500 V2, and figure 8 of V3: precision of the products x type of the gradients on the wire."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from hpcai.formulas import score
from hpcai.record.entry import Row
from hpcai.results.gains import GRID
from hpcai.study.figure import Curve, Drawing, FigureOfTests, Published
from hpcai.study.figures import FIGURES
from hpcai.study.scaling import GIGA, by_ranks, efficiency, ranks

OPTIONS = ("PRECISION", "WIRE")
COLUMNS = (
    *("data", "PRECISION", "WIRE", "P", "Q", "GFLOP/s", "speed-up", "parallel efficiency"),
    *("quality", "quality difference", "compression"),
)


@FIGURES.register("v2_fig4")
class V2Fig4(FigureOfTests):
    """Rate by ranks, a curve for each precision and type; references are tests of the same workload and data."""

    title = "Precision of the products and of the gradients"
    paper = "HPC AI500 V2, Fig. 4; V3, Fig. 8"
    x, y = "ranks", "GFLOP/s"
    varied = (*GRID, *OPTIONS)
    published: ClassVar[Published | None] = Published(
        "HPC AI500 V2 (arXiv:2102.12848): images, 64 V100",
        "gradients: 0 fp32, 1 compressed",
        "TFLOP/s",
        (Curve("64 V100, fp32 products", ((0, 345.0), (1, 414.0))),),
    )

    def family(self, test: Row) -> str:
        """Images and weather are in one figure, each against its own smallest test."""
        return test.workload

    def draw(self, tests: Sequence[Row]) -> Drawing:
        families = dict.fromkeys(map(self.family, tests))
        own = [by_ranks([test for test in tests if self.family(test) == family]) for family in families]
        rows = (_row(test, ordered) for ordered in own for test in ordered)
        return Drawing(COLUMNS, tuple(rows), tuple(curve for ordered in own for curve in _curves(ordered)))


def _curves(ordered: Sequence[Row]) -> Iterator[Curve]:
    for kind in dict.fromkeys(map(_kind, ordered)):
        products, wire = kind
        label = f"{ordered[0].raw.dataset.name}: {products} products, {wire} gradients"
        yield Curve(label, tuple(map(_point, _of(ordered, kind))))


def _kind(test: Row) -> tuple[str, str]:
    return str(test.settings["PRECISION"]), str(test.settings["WIRE"])


def _of(tests: Sequence[Row], kind: tuple[str, str]) -> list[Row]:
    return [test for test in tests if _kind(test) == kind]


def _point(test: Row) -> tuple[float, float]:
    return ranks(test), test.scores.flops / GIGA


def _row(test: Row, ordered: Sequence[Row]) -> tuple[str | int | float | None, ...]:
    scores = test.scores
    alike = next(other for other in ordered if (other.p, other.q) == (test.p, test.q))
    smallest = _of(ordered, _kind(test))[0]
    cost = scores.gradient_cost
    return (
        *(test.raw.dataset.name, *_kind(test)),
        *(test.p, test.q, scores.flops / GIGA, score.speedup(scores.flops, alike.scores.flops)),
        *(efficiency(test, smallest), scores.quality, scores.quality - alike.scores.quality),
        cost.compression if cost else None,
    )

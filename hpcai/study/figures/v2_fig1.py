"""Figure 1 of HPC AI500 V2: rate of convolutions, of matrix products and of a training, by precision and ranks."""

from collections.abc import Iterator, Sequence

from hpcai.formulas.precision import PRECISIONS
from hpcai.record.entry import Row
from hpcai.results.gains import GRID
from hpcai.study.figure import Cell, Curve, Drawing, FigureOfTests, KernelTable
from hpcai.study.figures import FIGURES
from hpcai.study.scaling import GIGA, by_ranks, ranks
from hpcai.workloads.kernels.scores import ceilings

COLUMNS = ("PRECISION", "ranks", "convolution, GFLOP/s", "GEMM, GFLOP/s", "training, GFLOP/s", "quality")
Rates = dict[tuple[str, int], tuple[float | None, float | None]]  # by type of the products and ranks


@FIGURES.register("v2_fig1")
class V2Fig1(FigureOfTests):
    """Rates of all ranks together: of the products in tables of the same results, and of the trainings."""

    title = "Rate of convolutions, matrix products and training"
    paper = "HPC AI500 V2, Fig. 1: digits not published"
    x, y = "ranks", "GFLOP/s"
    varied = (*GRID, "PRECISION")
    of_tables = True

    def drawn(self, tests: Sequence[Row], tables: Sequence[KernelTable]) -> Drawing:
        ordered, rates = by_ranks(tests), _rates(tables)
        rows = tuple(_row(test, rates) for test in ordered)
        return Drawing(COLUMNS, rows, (*_of_products(rates), *_of_trainings(ordered)))

    def draw(self, tests: Sequence[Row]) -> Drawing:
        return self.drawn(tests, ())


def _rates(tables: Sequence[KernelTable]) -> Rates:
    """GFLOP/s of all ranks of a table, each product by its fastest provider; the last table counts."""
    found: Rates = {}
    for table in tables:
        for dtype in dict.fromkeys(row.dtype for row in table.rows):
            of_rank = ceilings(table.rows, dtype)
            products = (of_rank.convolution, of_rank.gemm)
            rates = [None if rate is None else rate * table.ranks / GIGA for rate in products]
            if rates != [None, None]:
                found[dtype, table.ranks] = (rates[0], rates[1])
    return found


def _row(test: Row, rates: Rates) -> tuple[Cell, ...]:
    precision = str(test.settings["PRECISION"])
    products = rates.get((PRECISIONS[precision].product, ranks(test)), (None, None))
    return (precision, ranks(test), *products, test.scores.flops / GIGA, test.scores.quality)


def _of_products(rates: Rates) -> Iterator[Curve]:
    for place, what in enumerate(("convolution", "GEMM")):
        for dtype in dict.fromkeys(dtype for dtype, _ in rates):
            known = [(count, found[place]) for (other, count), found in rates.items() if other == dtype]
            points = tuple(sorted((float(count), rate) for count, rate in known if rate is not None))
            if points:
                yield Curve(f"{what}, {dtype}", points)


def _of_trainings(tests: Sequence[Row]) -> Iterator[Curve]:
    for precision in dict.fromkeys(str(test.settings["PRECISION"]) for test in tests):
        own = [test for test in tests if test.settings["PRECISION"] == precision]
        yield Curve(f"training, {precision}", tuple((ranks(test), test.scores.flops / GIGA) for test in own))

"""Figure 7 of HPC AI500 V3: throughput and quality of process grids with equally many ranks."""

from collections.abc import Sequence

from hpcai.record.entry import Row
from hpcai.study.figure import Curve
from hpcai.study.figures import FIGURES
from hpcai.study.scaling import OverGrids


@FIGURES.register("v3_fig7")
class V3Fig7(OverGrids):
    """A point for each grid: samples per second and quality."""

    title = "Throughput and quality of P x Q grids"
    paper = "HPC AI500 V3, Fig. 7: grids (8, 8), (4, 16), (1, 64), digits not published"
    x, y = "quality", "samples/s"

    def curves(self, tests: Sequence[Row]) -> tuple[Curve, ...]:
        return tuple(
            Curve(f"{test.p} x {test.q}", ((test.scores.quality, test.scores.samples_per_second),)) for test in tests
        )

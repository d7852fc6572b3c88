"""Figure 2 of HPC AI500 V3: operations that repeated searches need until they reach the target."""

from collections.abc import Sequence

from hpcai.record.entry import Row
from hpcai.study.figure import Curve, Drawing, FigureOfTests
from hpcai.study.figures import FIGURES
from hpcai.study.repetitions import SEEDS, over_seeds


@FIGURES.register("v3_fig2")
class V3Fig2(FigureOfTests):
    """Operations to the target by seed; mean and coefficient of variation in the last rows."""

    title = "Operations to the quality target of repeated searches"
    paper = "HPC AI500 V3, Fig. 2: digits not published"
    x, y = "seed", "operations to the target, 10^9"
    score = "operations_to_quality"
    varied = SEEDS

    def draw(self, tests: Sequence[Row]) -> Drawing:
        operations = [test.scores.operations_to_quality for test in tests]
        found = [None if count is None else count / 1e9 for count in operations]
        rows, points = over_seeds(tests, found)
        return Drawing(("seed", self.y), rows, (Curve("searches", points),))

"""Table 1 of HPC AI500 V2: variation of the epochs to the quality target over repetitions with other seeds."""

from collections.abc import Sequence

from hpcai.record.entry import Row
from hpcai.study.figure import Curve, Drawing, FigureOfTests, Published
from hpcai.study.figures import FIGURES
from hpcai.study.repetitions import SEEDS, over_seeds


@FIGURES.register("v2_table1")
class V2Table1(FigureOfTests):
    """Epochs to the target by seed; mean and coefficient of variation in the last rows."""

    title = "Epochs to the quality target, by seed"
    paper = "HPC AI500 V2, Table 1"
    x, y = "seed", "epochs to quality"
    varied = SEEDS
    published = Published(
        "HPC AI500 V2 (arXiv:2102.12848), Table 1",
        "0 images, 1 detection, 2 search",
        "coefficient of variation, %",
        (Curve("published", ((0, 1.12), (1, 0.0), (2, 6.15))),),
    )

    def draw(self, tests: Sequence[Row]) -> Drawing:
        epochs = [test.scores.epochs_to_quality for test in tests]
        rows, points = over_seeds(tests, [None if count is None else float(count) for count in epochs])
        return Drawing(("seed", self.y), rows, (Curve("models", points),))

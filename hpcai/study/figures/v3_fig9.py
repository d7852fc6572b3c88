"""Figure 9 of HPC AI500 V3: one model on all ranks against models on parts of them."""

from collections.abc import Sequence

from hpcai.record.entry import Row
from hpcai.study.figure import Curve
from hpcai.study.figures import FIGURES
from hpcai.study.scaling import OverGrids, efficiency, ranks


@FIGURES.register("v3_fig9")
class V3Fig9(OverGrids):
    """Parallel efficiency by ranks, of P = 1 and of P > 1."""

    title = "Efficiency of one model on all ranks, and of an ensemble"
    paper = "HPC AI500 V3, Fig. 9: digits not published"
    x, y = "ranks", "parallel efficiency"

    def curves(self, tests: Sequence[Row]) -> tuple[Curve, ...]:
        first = tests[0]
        kinds = {"one model, P = 1": [test for test in tests if test.p == 1]}
        kinds["ensemble, P > 1"] = [first, *(test for test in tests if test.p > 1 and test is not first)]
        return tuple(
            Curve(label, tuple((ranks(test), efficiency(test, first)) for test in chosen))
            for label, chosen in kinds.items()
            if len(chosen) > 1 or label.startswith("one")
        )

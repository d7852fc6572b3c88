"""Figure 5 of HPC AI500 V3: P models at a fixed Q, and the rate that they reach together."""

from collections.abc import Sequence

from hpcai.record.entry import Row
from hpcai.study.figure import Curve
from hpcai.study.figures import FIGURES
from hpcai.study.scaling import GIGA, OverGrids, ranks


@FIGURES.register("v3_fig5")
class V3Fig5(OverGrids):
    """FLOPS and Valid FLOPS by ranks, one curve for each Q, and the line of equal rates of a rank."""

    title = "Rate of P models at a fixed Q"
    paper = "HPC AI500 V3, Fig. 5: near-linear, digits not published"
    x, y = "ranks", "GFLOP/s"

    def curves(self, tests: Sequence[Row]) -> tuple[Curve, ...]:
        degrees = sorted({test.q for test in tests})
        first = tests[0]
        linear = tuple((ranks(test), first.scores.flops / ranks(first) * ranks(test) / GIGA) for test in tests)
        return (
            *(_curve(f"FLOPS, Q = {q}", tests, q, "flops") for q in degrees),
            *(_curve(f"Valid FLOPS, Q = {q}", tests, q, "valid_flops") for q in degrees),
            Curve("linear", tuple(sorted(set(linear)))),
        )


def _curve(label: str, tests: Sequence[Row], degree: int, name: str) -> Curve:
    return Curve(label, tuple((ranks(test), getattr(test.scores, name) / GIGA) for test in tests if test.q == degree))

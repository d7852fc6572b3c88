"""[toy]: pi from random points, drawn by P groups of Q ranks; the example of a new workload in CONTRIBUTING.md."""

from math import inf

from hpcai.inputfile.key import GRID, Key, SectionDeclaration, Shipped
from hpcai.workloads.workload import Figure, Quality, Workload

POINTS = Key(name="POINTS", kind="integer", help="points that each rank draws", low=1, high=2**30)
GOAL = Key(name="GOAL", kind="real", help="error of pi to reach", low=0, high=4, bounds="(]", default=0.1, sweep=False)
WORKLOAD = Workload(
    SectionDeclaration(
        "toy",
        "pi from random points",
        groups=(GRID,),
        keys=(POINTS, GOAL),
        shipped=(Shipped({"POINTS": (10_000,), "GROUPS": (2,), "DEGREE": (1,)}),),
    ),
    digit=9,
    unit="points",
    quality=Quality("error", larger_is_better=False, highest=inf),
    ranked_by="quality",
    figures=(Figure("mpoints", "points_per_second", 1e6),),
    repeated=("flops", "quality"),
    columns={"N": "points", "NB": "points per rank", "P": "groups that draw points of their own"},
)

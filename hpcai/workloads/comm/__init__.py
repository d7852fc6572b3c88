"""Workload [comm]: collectives of MPI and of the backend that trains."""

from hpcai.inputfile.key import GRID, Key, SectionDeclaration, Shipped
from hpcai.workloads.workload import Workload

SIZES = Key(
    name="SIZES",
    kind="integer",
    help="bytes of a collective",
    low=4,
    high=2**40,
    suffixed=True,
    default=tuple(1024 * 4**power for power in range(10)),
    sweep=False,
    listed=True,
)
WORKLOAD = Workload(
    SectionDeclaration(
        "comm",
        "collectives of MPI and of the backend that trains",
        groups=(GRID,),
        keys=(SIZES,),
        defaults={"GROUPS": 0, "DEGREE": 0},
        shipped=(Shipped({"SIZES": (2**10, 2**16, 2**22, 2**26)}),),
    ),
    rows="collectives",
)

"""[comm]: collectives of MPI and of the backend that trains."""

from hpcai.inputfile.key import COMM, GRID, SectionDeclaration, Shipped
from hpcai.workloads.workload import Workload

WORKLOAD = Workload(
    SectionDeclaration(
        "comm",
        "collectives of MPI and of the backend that trains",
        groups=(COMM, GRID),
        defaults={"GROUPS": 0, "DEGREE": 0},
        shipped=(Shipped({"SIZES": (2**10, 2**16, 2**22, 2**26)}),),
    )
)

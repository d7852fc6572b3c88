"""Workload [health]: rates of each node's kernels and links, compared with the median of all nodes."""

from hpcai.formulas.precision import OF_LAYERS
from hpcai.inputfile.key import Key, SectionDeclaration
from hpcai.workloads.workload import Workload

# Largest share of the median that a node may lack, unless the nodes differ more. GPUs of one model differ by 8 % and,
# in the cluster where they differ most, by 22 % on average; those with a fault have down to 1 / 1.5 of the median
# (Sinha et al., Not All GPUs Are Created Equal, SC 2022, abstract of arXiv:2208.11035).
USUAL = 0.25
TYPES = Key(
    name="TYPES",
    kind="choice",
    help="types of the matrix products",
    choices=OF_LAYERS,
    default=("fp32",),
    sweep=False,
    listed=True,
)
SIDE = Key(
    name="SIDE",
    kind="integer",
    help="side of the square matrices",
    low=64,
    high=2**16,
    zero="1024, of a GPU 8192",
    default=0,
    sweep=False,
)
TOLERANCE = Key(
    name="TOLERANCE",
    kind="real",
    help="share of the median rate that a node may lack; more if the nodes differ more",
    low=0.01,
    high=0.5,
    default=USUAL,
    sweep=False,
)
WORKLOAD = Workload(
    SectionDeclaration(
        "health",
        "rates of each node's kernels and links, compared with the median of all nodes",
        keys=(TYPES, SIDE, TOLERANCE),
    ),
)

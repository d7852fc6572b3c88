"""Workload [kernels]: matrix products, convolutions, attention and ceilings by every provider."""

from hpcai.formulas.precision import OF_LAYERS
from hpcai.inputfile.key import NETWORK, Key, SectionDeclaration, Shipped
from hpcai.inputfile.keys import DECODERS, LARGE, SMALL
from hpcai.workloads.workload import Workload

AUTO = "auto"  # the value of SHAPES for square products as large as fit
SHAPES = Key(
    name="SHAPES",
    kind="shapes",
    help="a network: the products of its layers; a number: square matrices; auto: squares that fit",
    choices=(AUTO, *SMALL, *LARGE, *DECODERS),
    low=1,
    high=2**20,
    default=AUTO,
    sweep=False,
    listed=True,
)
WORKLOAD = Workload(
    SectionDeclaration(
        "kernels",
        "matrix products, convolutions, attention, custom and vendor; RESOLUTION 0: 224, small images 32, decoders 512",
        groups=(NETWORK,),
        keys=(SHAPES,),
        defaults={"BATCH": 32},
        own={
            "PRECISION": {
                "choices": OF_LAYERS,
                "sweep": False,
                "listed": True,
                "help": "types of the products; square matrices also in fp64 and int8",
            }
        },
        shipped=(Shipped({"SHAPES": ("resnet8", 1024), "RESOLUTION": (28,)}),),
    ),
    rows="kernels",
    compiles=("gemm", "conv2d"),
)

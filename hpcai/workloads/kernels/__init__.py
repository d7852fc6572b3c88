"""[kernels]: matrix products, convolutions and ceilings of every provider."""

from hpcai.inputfile.key import KERNELS, NETWORK, SectionDeclaration, Shipped
from hpcai.workloads.workload import Workload

WORKLOAD = Workload(
    SectionDeclaration(
        "kernels",
        "matrix products and convolutions, custom and vendor; RESOLUTION 0: 224, networks of small images 32",
        groups=(KERNELS, NETWORK),
        defaults={"BATCH": 32},
        own={
            "PRECISION": {
                "choices": ("fp32", "tf32", "fp16", "bf16"),
                "sweep": False,
                "listed": True,
                "help": "types of the products; square matrices also in fp64 and int8",
            }
        },
        shipped=(Shipped({"SHAPES": ("resnet8", 1024), "RESOLUTION": (28,)}),),
    ),
    compiles=True,
)

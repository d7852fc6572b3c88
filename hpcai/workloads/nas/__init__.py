"""Workload [nas]: AIPerf's search for networks and hyper-parameters, by P groups of Q ranks."""

from hpcai.inputfile.key import CLASSIFICATION, GRID, NETWORK, TRAINING, SectionDeclaration, Shipped
from hpcai.workloads.nas.keys import KEYS
from hpcai.workloads.workload import APC, Figure, Quality, Workload

QUALITY = Quality("top-1")
WORKLOAD = Workload(
    SectionDeclaration(
        "nas",
        "search for networks and hyper-parameters by P groups at once (AIPerf)",
        groups=(TRAINING, NETWORK, GRID, CLASSIFICATION),
        keys=KEYS,
        defaults={"VARIANT": "v1", "EPOCHS": 60, "WARMUP": 0.0, "SCHEDULE": "linear", "SMOOTHING": 0.0},
        own={
            "KERNELS": {
                "choices": ("vendor", "custom", "file:PATH"),
                "help": "who computes the layers: torch's libraries, custom kernels, or a file's kernels",
            }
        },
        shipped=(
            Shipped(
                {
                    "DATASET": ("fashion",),
                    "SAMPLES": (2000,),
                    "GROUPS": (2,),
                    "DEGREE": (1,),
                    "BATCH": (32,),
                    "EPOCHS": (4,),
                    "LEARNRATE": (1.0,),
                    "DECAY": (5e-4,),
                    "DURATION": (20.0,),
                }
            ),
        ),
    ),
    digit=3,
    unit="images",
    quality=QUALITY,
    ranked_by="highest_ops",
    figures=(
        Figure("ops", "ops"),
        Figure("highest_ops", "highest_ops"),
        Figure("regulated_score", "regulated_score"),
        Figure("idle_share", "idle_share"),
        APC,
    ),
    repeated=("flops", "ops", "regulated_score", "quality", "operations_to_quality"),
    columns={
        "NB": "those that a search begins with",
        "P": "the groups",
        "Time": "the whole search, less the validation of the group that had least of it",
    },
    trains=True,
    outlasts=True,
    compiles_if_custom=("conv2d",),
)

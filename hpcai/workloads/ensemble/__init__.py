"""Workload [ensemble]: image classification by an ensemble of P models of Q ranks each (HPC AI500 V3; V2 has P = 1)."""

from hpcai.inputfile.key import (
    BAGGING,
    CLASSIFICATION,
    COMPILATION,
    GRID,
    NETWORK,
    TRAINING,
    SectionDeclaration,
    Shipped,
    Value,
)
from hpcai.workloads.workload import APC, Figure, Quality, Workload

SHIPPED: dict[str, tuple[Value, ...]] = {
    "DATASET": ("fashion",),
    "BATCH": (32,),
    "EPOCHS": (5,),
    "LEARNRATE": (1.0,),
    "DECAY": (5e-4,),
}
QUALITY = Quality("top-1")
WORKLOAD = Workload(
    SectionDeclaration(
        "ensemble",
        "image classification by an ensemble of networks",
        groups=(TRAINING, NETWORK, GRID, BAGGING, CLASSIFICATION, COMPILATION),
        shipped=(
            Shipped({**SHIPPED, "GROUPS": (2,), "DEGREE": (1,)}),
            Shipped(
                {**SHIPPED, "GROUPS": (1,), "DEGREE": (2,), "KERNELS": ("custom",)},
                "one model on two ranks, trained by the custom kernels",
            ),
        ),
    ),
    digit=1,
    unit="images",
    quality=QUALITY,
    ranked_by="valid_flops",
    figures=(Figure("valid_gflops", "valid_flops", 1e9), APC),
    repeated=("flops", "valid_flops", "quality", "epochs_to_quality"),
    trains=True,
    outlasts=True,
    ensembles=True,
    divides=True,
    compiles_if_custom=("conv2d",),
)

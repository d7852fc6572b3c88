"""Workload [weather]: extreme weather detection by an ensemble of P detectors, each trained by Q ranks (HPC AI500)."""

from hpcai.inputfile.key import BAGGING, GRID, NETWORK, TRAINING, SectionDeclaration, Shipped
from hpcai.workloads.workload import APC, Figure, Quality, Workload

DETECTORS = ("fasterrcnn8", "fasterrcnn18", "fasterrcnn34", "fasterrcnn50")
QUALITY = Quality("mAP")
WORKLOAD = Workload(
    SectionDeclaration(
        "weather",
        "extreme weather detection in climate fields by an ensemble of detectors",
        groups=(TRAINING, NETWORK, GRID, BAGGING),
        defaults={"NETWORK": DETECTORS[0], "PENALTY": 10.0},
        own={
            "DATASET": {
                "choices": ("generated", "extremeweather:PATH"),
                "help": "climate fields: generated; the published files, or packed ones",
            },
            "NETWORK": {
                "choices": DETECTORS,
                "help": "the base model: Faster R-CNN on a ResNet with a feature pyramid",
            },
            "RESOLUTION": {"help": "rows of the grid of generated fields, which has 1.5 times as many columns"},
        },
        shipped=(
            Shipped(
                {
                    "DATASET": ("generated",),
                    "RESOLUTION": (96,),
                    "CLASSES": (2,),
                    "SAMPLES": (480,),
                    "GROUPS": (2,),
                    "DEGREE": (1,),
                    "BATCH": (16,),
                    "EPOCHS": (3,),
                    "LEARNRATE": (0.45,),
                    "MOMENTUM": (0.9,),
                    "DECAY": (1e-4,),
                }
            ),
        ),
    ),
    digit=2,
    unit="frames",
    quality=QUALITY,
    ranked_by="valid_flops",
    figures=(Figure("valid_gflops", "valid_flops", 1e9), APC),
    repeated=("flops", "valid_flops", "quality", "epochs_to_quality"),
    trains=True,
    outlasts=True,
    ensembles=True,
    compiles=("roi_align",),
    compiles_if_custom=("conv2d",),
)

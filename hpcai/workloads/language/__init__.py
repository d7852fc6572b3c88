"""Workload [language]: prediction of the next byte by an ensemble of P transformers of Q ranks each."""

from hpcai.inputfile.key import BAGGING, CLIPPING, GRID, NETWORK, TRAINING, SectionDeclaration
from hpcai.inputfile.keys import DECODERS
from hpcai.workloads.workload import APC, Figure, Quality, Workload

QUALITY = Quality("bpb", larger_is_better=False, highest=8.0)
WORKLOAD = Workload(
    SectionDeclaration(
        "language",
        "prediction of the next byte by an ensemble of transformers",
        groups=(TRAINING, NETWORK, GRID, BAGGING, CLIPPING),
        defaults={
            "NETWORK": DECODERS[0],
            "OPTIMISER": "adamw",
            "BETA2": 0.95,
            "DECAY": 0.1,
            "LEARNRATE": 0.004,
            "SCALING": "none",
        },
        own={
            "DATASET": {
                "choices": ("generated", "text:PATH", "enwik8:PATH"),
                "help": "sequences of bytes: generated with a known entropy; a file or folder; the published enwik8",
            },
            "NETWORK": {"choices": DECODERS, "help": "the base model: a transformer of blocks x width"},
            "VARIANT": {"choices": ("v1.5",), "help": "of residual networks only"},
            "RESOLUTION": {"low": 8, "high": 8192, "help": "S: bytes of a sequence that predict the next ones"},
            "CLASSES": {"low": 256, "high": 256, "help": "values of a byte"},
            "TARGET": {"high": 8.0, "help": "quality target in bits per byte"},
        },
    ),
    digit=4,
    unit="sequences",
    quality=QUALITY,
    ranked_by="valid_flops",
    figures=(Figure("valid_gflops", "valid_flops", 1e9), APC),
    repeated=("flops", "valid_flops", "quality", "epochs_to_quality"),
    trains=True,
    outlasts=True,
    ensembles=True,
    divides=True,
    compiles_if_custom=("attention",),
)

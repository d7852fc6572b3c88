"""[errors]: classification as in [ensemble], whose quality is the share of wrong answers: smaller is better."""

from hpcai.inputfile.key import BAGGING, CLASSIFICATION, GRID, NETWORK, TRAINING, SectionDeclaration
from hpcai.workloads.workload import Figure, Quality, Workload

QUALITY = Quality("error", larger_is_better=False)
WORKLOAD = Workload(
    SectionDeclaration(
        "errors", "classification by its errors", groups=(TRAINING, NETWORK, GRID, BAGGING, CLASSIFICATION)
    ),
    digit=8,
    unit="images",
    quality=QUALITY,
    ranked_by="valid_flops",
    figures=(Figure("valid_gflops", "valid_flops", 1e9),),
    repeated=("valid_flops", "quality"),
    trains=True,
)

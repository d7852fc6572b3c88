"""Published trainings on ImageNet: the ranking of HPC AI500 of 2020, and figures of HPC AI500 V2 (docs/PAPERS.md)."""

from hpcai.formulas.official_rules import IMAGES
from hpcai.formulas.published import Published

DATASET = IMAGES.dataset
LIST = "HPC AI500 ranking of 2020-07-02"
Machine = tuple[int | None, str]  # number and name of the accelerators
V2 = "HPC AI500 V2, arXiv:2007.00279"


def _row(
    site: str, year: int, petaflops: float, minutes: float, quality: float, machine: Machine, note: str = ""
) -> Published:
    """A row of the ranking of 2020."""
    return Published(
        site=site,
        year=str(year),
        source=LIST,
        system=machine[1],
        accelerators=machine[0],
        valid_flops=petaflops * 1e15,
        minutes=minutes,
        quality=quality,
        note=note,
    )


PUBLISHED = (
    _row("Fujitsu", 2019, 31.41, 1.2, 0.751, (2048, "V100")),
    _row("Google", 2018, 20.10, 2.2, 0.763, (1024, "TPU v3")),
    _row("Sony", 2018, 10.02, 3.7, 0.750, (2176, "V100")),
    _row("Tencent", 2018, 6.44, 6.6, 0.760, (2048, "P40"), "its paper gives a top-1 of 0.758"),
    _row("Preferred Networks", 2017, 2.41, 15, 0.749, (1024, "P100")),
    _row("Berkeley", 2018, 1.95, 20, 0.754, (2048, "KNL")),
    _row("Intel", 2017, 1.27, 28, 0.746, (None, "")),
    _row("IBM", 2017, 0.75, 50, 0.750, (256, "P100")),
    _row("Facebook", 2017, 0.70, 60, 0.763, (256, "P100")),
    Published("HPC AI500", "2020", V2, "V100", 64, "fp32", flops=414e12, note="414 TFLOPS with compressed gradients"),
    Published("HPC AI500", "2020", V2, "V100", 64, "fp32", flops=345e12),
)

"""Record of the processor of a rank, from which the limits of its rates follow (hpcai.results.physical_limits)."""

from typing import Annotated

from msgspec import Meta

from hpcai.formulas.processor_units import FEATURES
from hpcai.record.record import Count, Name, Positive, Record, about, one_of

FASTEST = 1e10  # Hz; no processor reaches it
Feature = Annotated[str, one_of(FEATURES)]
Frequency = Annotated[float, Meta(ge=0, le=FASTEST)]

RankBound = Annotated[
    float | None,
    about(
        "FLOPS that no rank exceeds: 1.1 x cycles per second x widest known units x threads x nominal / least "
        "operations",
        unit="FLOP/s",
        label="bound of a rank's processor, GFLOP/s",
        scale=1e9,
        absent="n/a, unknown processor",
    ),
]


class Processor(Record, kw_only=True):
    """The processor or GPU of a rank, the same on every rank, and its cycles per second."""

    vendor: Annotated[Name, about("vendor_id of /proc/cpuinfo, Arm, or NVIDIA; unknown, or different ones: unknown")]
    family: Annotated[Count, about("family; of Arm the implementer; of a GPU the major compute capability")]
    model: Annotated[Count, about("model; of Arm the part; of a GPU the minor compute capability")]
    features: Annotated[tuple[Feature, ...], about("instructions that it has, of those that the table of units names")]
    units: Annotated[Positive, about("threads of a rank, at most its CPUs; of a GPU its multiprocessors; the largest")]
    cycles: Annotated[
        Frequency,
        about(
            "cycles per second: the fastest burst of dependent operations of any rank, 0 if wrong on all; "
            "of a GPU its largest clock by NVML",
            unit="Hz",
        ),
    ]


RanksProcessor = Annotated[Processor | None, about("processor of the ranks; null in older results")]

"""Record of the energy of a test's timed region, and the scores that follow from it; the same in every workload."""

from typing import Annotated, Literal

from msgspec import Meta

from hpcai.record.record import DAY, END, TIME, Name, NonNegative, Positive, Record, Seconds, about

Source = Literal["nvml", "rapl", "pm_counters", "fixed", "meter"]
Covers = Literal["GPUs", "packages", "packages and DRAM", "node"]
Instant = Annotated[str, Meta(pattern=f"^[0-9]{{4}}-{DAY}T{TIME}[.][0-9]{{3}}[+]00:00{END}")]

COVERED: dict[Source, tuple[Covers, ...]] = {
    "nvml": ("GPUs",),
    "rapl": ("packages", "packages and DRAM"),
    "pm_counters": ("node",),
    "fixed": ("node",),
    "meter": ("node",),
}
# In the order in which ENERGY auto prefers them: first what counts whole nodes.
AUTOMATIC: tuple[Source, ...] = ("pm_counters", "nvml", "rapl")
LEAST_SECONDS = 2.0  # of a region with scores: counters change up to ten times a second only


class Energy(Record, kw_only=True):
    """Energy between two readings, before the timed region and after it, of the nodes and GPUs of the test's grid."""

    source: Annotated[
        Source | None,
        about(
            "what was read: Cray's pm_counters, NVML, RAPL, the fixed watts or the meter of ENERGY; null if nothing was"
        ),
    ]
    covers: Annotated[Covers | None, about("the part of a node whose energy it is")]
    nodes: Annotated[Positive, about("nodes of the grid, each read once")]
    begun: Annotated[Instant, about("UTC of the first reading, by the clock of the grid's first rank")]
    seconds: Annotated[
        Seconds, about("time between the two readings, validations between epochs included", unit="s")
    ]
    joules: Annotated[
        NonNegative | None,
        about(
            "energy of all nodes together",
            unit="J",
            label="energy of the timed region, J",
            absent="n/a, see Energy",
        ),
    ]
    reason: Annotated[Name | None, about("why the energy is not known; null where it is")] = None


MeanWatts = Annotated[
    float | None,
    about(
        "energy.joules / energy.seconds: all nodes together",
        unit="W",
        label="mean power, W",
        absent="n/a, see Energy",
        csv=True,
    ),
]
FlopsPerWatt = Annotated[
    float | None,
    about(
        "valid_flops / mean_watts (V2, section 4); of whole nodes and at least 2 s only, as the next two",
        unit="FLOP/s/W",
        label="Valid FLOPS per watt in GFLOP/s/W",
        scale=1e9,
        absent="n/a, see Energy",
        csv=True,
    ),
]
JoulesPerSample = Annotated[
    float | None,
    about(
        "energy.joules / N",
        unit="J",
        label="energy per training sample, J",
        absent="n/a, see Energy",
        csv=True,
    ),
]
JoulesPerTraining = Annotated[
    float | None,
    about(
        "energy.joules / P",
        unit="J",
        label="energy per training, J",
        absent="n/a, see Energy",
        csv=True,
    ),
]

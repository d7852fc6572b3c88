"""Records of a test under the roofline of its run (HPC AI500 V2)."""

from typing import Annotated, Literal

from hpcai.formulas.precision import PRECISIONS
from hpcai.formulas.roofline import Bound
from hpcai.record.record import Count, Positive, Record, about, one_of

GB = 1e9
ProductType = Annotated[str, one_of(dict.fromkeys(row.product for row in PRECISIONS.values()))]
GroupScope = Literal["group", "world"]
NOT_MEASURED = "n/a, not measured"
NO_GROUP = "n/a, no such group"


class Intensity(Record, kw_only=True):
    """FLOP of a training step per byte that it moves."""

    memory: Annotated[
        float, about("operations of a training step / bytes of memory that it moves", label="FLOP per byte of memory")
    ]
    communication: Annotated[
        float | None,
        about(
            "operations of a full step / mean bytes that a rank sends in one: gradients, channels, activations",
            label="FLOP per byte all-reduced",
            absent="n/a, one rank",
        ),
    ]


class Ceilings(Record, kw_only=True):
    """Ceilings and bounds of one rank; null where they were not measured before the test."""

    fma_peak: Annotated[float | None, about("measured multiply-adds in registers", unit="FLOP/s")]
    gemm: Annotated[
        float | None,
        about("operations / seconds of the measured matrix products, each by its faster provider", unit="FLOP/s"),
    ]
    convolution: Annotated[
        float | None,
        about("operations / seconds of the measured convolutions, each by its faster provider", unit="FLOP/s"),
    ]
    compute: Annotated[
        float | None, about("operations of a step / its seconds at the GEMM and convolution ceilings", unit="FLOP/s")
    ]
    memory: Annotated[float | None, about("measured triad bandwidth x intensity.memory", unit="FLOP/s")]
    communication: Annotated[
        float | None, about("measured bus bandwidth of the all-reduce x intensity.communication", unit="FLOP/s")
    ]
    attainable: Annotated[float | None, about("least of compute, memory and communication", unit="FLOP/s")]


class CeilingShares(Record, kw_only=True):
    """FLOP/s of a rank / each ceiling and bound."""

    fma_peak: Annotated[float | None, about("rate / FMA peak", label="share of the FMA peak", absent=NOT_MEASURED)]
    gemm: Annotated[float | None, about("rate / GEMM ceiling", label="share of the GEMM ceiling", absent=NOT_MEASURED)]
    convolution: Annotated[
        float | None,
        about("rate / convolution ceiling", label="share of the convolution ceiling", absent=NOT_MEASURED),
    ]
    compute: Annotated[
        float | None, about("rate / compute bound", label="share of the compute bound", absent=NOT_MEASURED)
    ]
    memory: Annotated[
        float | None, about("rate / memory bound", label="share of the memory bound", absent=NOT_MEASURED)
    ]
    communication: Annotated[
        float | None,
        about("rate / communication bound", label="share of the communication bound", absent=NOT_MEASURED),
    ]
    attainable: Annotated[
        float | None, about("rate / attainable rate", label="share of the attainable rate", absent=NOT_MEASURED)
    ]


class KernelsSource(Record, kw_only=True):
    """The table of kernels that the ceilings are from."""

    test: Annotated[Positive, about("number of the test that measured it")]
    triad: Annotated[float | None, about("triad bandwidth", unit="B/s")]
    faster: Annotated[dict[str, dict[str, Count]], about("products that each provider computes fastest, by ceiling")]
    type: Annotated[ProductType, about("type of the products")]


class AllReduceSource(Record, kw_only=True):
    """The measured all-reduce that the communication bound is from."""

    test: Annotated[Positive, about("number of the test that measured it")]
    scope: Annotated[GroupScope, about("ranks of a communicator: a group, or all")]
    by: Annotated[Literal["gloo", "nccl", "mpi"], about("backend")]
    nbytes: Annotated[Positive, about("measured size nearest to the gradient bytes", unit="B")]
    bandwidth: Annotated[float, about("bus bandwidth", unit="B/s")]


class Roofline(Record, kw_only=True):
    """A rank's rate under the ceilings that were measured before the test."""

    rate: Annotated[float, about("FLOPS / (P x Q)", unit="FLOP/s", label="GFLOP/s of a rank", scale=1e9)]
    intensity: Annotated[Intensity, about("operations per byte")]
    ceilings: Annotated[Ceilings, about("ceilings and bounds of a rank")]
    shares: Annotated[CeilingShares, about("rate / each ceiling and bound")]
    binding: Annotated[Bound | None, about("lowest bound: compute, memory or communication")]
    kernels: Annotated[
        KernelsSource | None, about("table of kernels that the ceilings are from; null without one before the test")
    ]
    all_reduce: Annotated[
        AllReduceSource | None, about("measured all-reduce that the bound is from; null without one before the test")
    ]


class GradientBandwidth(Record, kw_only=True):
    """Bytes per second that a rank sent to average gradients, by where the ranks of its group lie."""

    within: Annotated[
        float | None,
        about(
            "mean gradient bytes that a rank sent / training time, groups within a node",
            unit="B/s",
            label="gradient bandwidth within nodes, GB/s",
            scale=GB,
            absent=NO_GROUP,
        ),
    ]
    between: Annotated[
        float | None,
        about(
            "the same, groups on several nodes",
            unit="B/s",
            label="gradient bandwidth between nodes, GB/s",
            scale=GB,
            absent=NO_GROUP,
        ),
    ]

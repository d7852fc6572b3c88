"""Records of a test under the roofline of its run (HPC AI500 V2)."""

from typing import Annotated, Literal

from hpcai.formulas.roofline import Bound
from hpcai.record.record import Count, Positive, Record, about

GB = 1e9
ProductType = Literal["fp32", "tf32", "fp16", "bf16", "int8"]
GroupScope = Literal["group", "world"]
NOT_MEASURED = "n/a, not measured"
NO_GROUP = "n/a, no such group"


class Intensity(Record, kw_only=True):
    """FLOP of a training step per byte that it moves."""

    memory: Annotated[
        float, about("per byte of memory, from the shapes of the layers", label="FLOP per byte of memory")
    ]
    communication: Annotated[
        float | None,
        about("per byte all-reduced", label="FLOP per byte all-reduced", absent="n/a, one rank"),
    ]


class Ceilings(Record, kw_only=True):
    """Ceilings and bounds of one rank; null where they were not measured before the test."""

    fma_peak: Annotated[float | None, about("multiply-adds in registers", unit="FLOP/s")]
    gemm: Annotated[float | None, about("matrix products of a step, each by the faster provider", unit="FLOP/s")]
    convolution: Annotated[float | None, about("convolutions of a step, each by the faster provider", unit="FLOP/s")]
    compute: Annotated[
        float | None, about("GEMM and convolution ceilings, weighted by a step's operations", unit="FLOP/s")
    ]
    memory: Annotated[float | None, about("triad bandwidth x FLOP per byte", unit="FLOP/s")]
    communication: Annotated[float | None, about("bus bandwidth of the all-reduce x FLOP per byte", unit="FLOP/s")]
    attainable: Annotated[float | None, about("the lowest bound", unit="FLOP/s")]


class CeilingShares(Record, kw_only=True):
    """FLOP/s of a rank / each ceiling and bound."""

    fma_peak: Annotated[float | None, about("of the FMA peak", label="share of the FMA peak", absent=NOT_MEASURED)]
    gemm: Annotated[float | None, about("of the GEMM ceiling", label="share of the GEMM ceiling", absent=NOT_MEASURED)]
    convolution: Annotated[
        float | None,
        about("of the convolution ceiling", label="share of the convolution ceiling", absent=NOT_MEASURED),
    ]
    compute: Annotated[
        float | None, about("of the compute bound", label="share of the compute bound", absent=NOT_MEASURED)
    ]
    memory: Annotated[
        float | None, about("of the memory bound", label="share of the memory bound", absent=NOT_MEASURED)
    ]
    communication: Annotated[
        float | None,
        about("of the communication bound", label="share of the communication bound", absent=NOT_MEASURED),
    ]
    attainable: Annotated[
        float | None, about("of the lowest bound", label="share of the attainable rate", absent=NOT_MEASURED)
    ]


class KernelsSource(Record, kw_only=True):
    """The table of kernels that the ceilings are from."""

    test: Annotated[Positive, about("its test")]
    triad: Annotated[float | None, about("triad bandwidth", unit="B/s")]
    faster: Annotated[dict[str, dict[str, Count]], about("products that each provider computes faster, by ceiling")]
    type: Annotated[ProductType, about("type of the products")]


class AllReduceSource(Record, kw_only=True):
    """The measured all-reduce that the communication bound is from."""

    test: Annotated[Positive, about("its test")]
    scope: Annotated[GroupScope, about("communicators")]
    by: Annotated[Literal["gloo", "nccl"], about("backend")]
    nbytes: Annotated[Positive, about("size nearest to the gradients", unit="B")]
    bandwidth: Annotated[float, about("bus bandwidth", unit="B/s")]


class Roofline(Record, kw_only=True):
    """A rank's rate under the ceilings that were measured before the test."""

    rate: Annotated[float, about("FLOPS / ranks", unit="FLOP/s", label="GFLOP/s of a rank", scale=1e9)]
    intensity: Annotated[Intensity, about("FLOP per byte")]
    ceilings: Annotated[Ceilings, about("ceilings and bounds of a rank")]
    shares: Annotated[CeilingShares, about("shares of ceilings and bounds")]
    binding: Annotated[Bound | None, about("the lowest bound")]
    kernels: Annotated[KernelsSource | None, about("the table of kernels; null where none was measured before")]
    all_reduce: Annotated[AllReduceSource | None, about("the all-reduce; null where none was measured before")]


class GradientBandwidth(Record, kw_only=True):
    """Bytes per second that a rank sent to average gradients, by where the ranks of its group lie."""

    within: Annotated[
        float | None,
        about(
            "groups within a node", unit="B/s", label="gradient bandwidth within nodes, GB/s", scale=GB, absent=NO_GROUP
        ),
    ]
    between: Annotated[
        float | None,
        about(
            "groups on several nodes",
            unit="B/s",
            label="gradient bandwidth between nodes, GB/s",
            scale=GB,
            absent=NO_GROUP,
        ),
    ]

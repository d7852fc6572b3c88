"""Records of `[kernels]`: measured products and ceilings, and their rows."""

from typing import Annotated, Literal

from hpcai.kernels.spec import DTYPES
from hpcai.record.entry import Table
from hpcai.record.processor import RanksProcessor
from hpcai.record.record import Count, Name, NonNegative, Positive, PositiveSeconds, Record, Verdict, about, one_of

KernelName = Literal["gemm", "conv2d", "attention", "fma_peak", "triad", "copy"]
Direction = Literal["forward", "input_gradient", "weight_gradient", "product", "ceiling"]
DtypeName = Annotated[str, one_of(DTYPES)]


class MeasuredKernel(Record, kw_only=True):
    """One product or ceiling by one provider."""

    kernel: Annotated[KernelName, about("gemm, conv2d, attention, fma_peak, triad or copy")]
    direction: Annotated[Direction, about("of a layer: forward, input_gradient, weight_gradient; product; ceiling")]
    shape: Annotated[Name, about("shape of the product, the sums or the vectors")]
    of: Annotated[Name, about("network with the product, square, or ceiling")]
    occurrences: Annotated[Positive, about("times that a training step of the network has the product")]
    dtype: Annotated[DtypeName, about("type of the operands")]
    threads: Annotated[Positive, about("threads of a rank")]
    provider: Annotated[Name, about("custom, vendor or another provider")]
    variant: Annotated[str, about("fastest variant of the provider, where it has several")]
    operations: Annotated[Count, about("operations of one call", unit="FLOP")]
    nbytes: Annotated[Count, about("bytes of operands and result, each counted once", unit="B")]
    seconds: Annotated[PositiveSeconds, about("time of one call of the slowest rank, median of blocks", unit="s")]
    residual: Annotated[NonNegative, about("element-wise residual, limit 1; of int8 wrong elements, limit 0")]
    checked: Annotated[Literal["every element", "random vectors", "random heads"], about("how the result was verified")]
    first_seconds: Annotated[
        PositiveSeconds | None, about("time of the first call, of the slowest rank; null in older results", unit="s")
    ] = None
    spot_residual: Annotated[
        NonNegative | None, about("largest residual of elements checked between timed calls; limit as of residual")
    ] = None
    spot_checks: Annotated[Count | None, about("checks of some elements between timed calls, rank with fewest")] = None
    second_clock: Annotated[
        PositiveSeconds | None,
        about("the same by a second clock; null of GPUs, which time calls by events, and in older results", unit="s"),
    ] = None


class MissingKernel(Record, kw_only=True):
    """A kernel that a provider does not support here, and the reason."""

    kernel: Annotated[KernelName, about("kernel")]
    dtype: Annotated[DtypeName, about("type of the operands")]
    provider: Annotated[Name, about("provider")]
    why: Annotated[Name, about("reason")]


class KernelsRaw(Record, kw_only=True):
    """Raw measurements of `[kernels]`."""

    threads: Annotated[Positive, about("threads of a rank")]
    ranks: Annotated[Positive, about("ranks that compute at once")]
    missing: Annotated[tuple[MissingKernel, ...], about("kernels that could not be measured")]
    rows: Annotated[tuple[MeasuredKernel, ...], about("products and ceilings measured")]
    processor: RanksProcessor = None


class KernelRow(MeasuredKernel, kw_only=True):
    """A measured product or ceiling with derived values; a line of kernels.csv."""

    test: Annotated[Positive, about("number of the test")]
    gflops: Annotated[float, about("operations / seconds, in 10^9", unit="GFLOP/s")]
    intensity: Annotated[float | None, about("operations / nbytes", unit="FLOP/B")]
    share: Annotated[float | None, about("operations / seconds / FMA peak of the same type")]
    ratio: Annotated[
        float | None, about("seconds of the vendor / of the row's provider; in the vendor's row, of custom")
    ]
    verdict: Annotated[
        Verdict, about("PASSED if residuals are within their limit, the rate within its bound, and two clocks agree")
    ]
    bound: Annotated[
        float | None,
        about("no rate is above it: FLOP/s, of triad and copy B/s; null of unknown processors", unit="FLOP/s"),
    ] = None


class KernelCeilings(Record, kw_only=True):
    """Ceilings of one rank, from rows that PASSED; null without such rows, or where measured on GPUs only."""

    fma_peak: Annotated[float | None, about("multiply-adds in registers, fp32", unit="FLOP/s")]
    gemm: Annotated[float | None, about("matrix products of the networks, by the faster provider", unit="FLOP/s")]
    convolution: Annotated[float | None, about("convolutions of the networks, by the faster provider", unit="FLOP/s")]
    triad: Annotated[float | None, about("STREAM triad in fp64", unit="B/s")]
    copy: Annotated[float | None, about("copy within a GPU's memory", unit="B/s")] = None
    fma_peak_tf32: Annotated[float | None, about("tf32 multiply-adds of a GPU", unit="FLOP/s")] = None
    fma_peak_fp16: Annotated[float | None, about("fp16 multiply-adds of a GPU", unit="FLOP/s")] = None
    fma_peak_bf16: Annotated[float | None, about("bf16 multiply-adds of a GPU", unit="FLOP/s")] = None
    fma_peak_fp64: Annotated[float | None, about("fp64 multiply-adds of a GPU", unit="FLOP/s")] = None
    fma_peak_int8: Annotated[float | None, about("int8 multiply-adds of a GPU", unit="op/s")] = None


class KernelsTable(Table, kw_only=True):
    """A test of `[kernels]`."""

    workload: Literal["kernels"] = "kernels"
    raw: Annotated[KernelsRaw, about("raw measurements")]
    ceilings: Annotated[KernelCeilings, about("ceilings of one rank")]


ENTRY = KernelsTable
STOPPED = None

"""Scores of `[kernels]`: ceilings of a rank, and times of the products of a training step."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hpcai.kernels.providers import CUSTOM, VENDOR, in_order
from hpcai.kernels.spec import DIRECTIONS
from hpcai.opcount.ceilings import COPY, FMA_PEAK, PEAKS, TRIAD
from hpcai.workloads.kernels.record import KernelCeilings, KernelRow, MeasuredKernel, MissingKernel

COMPARED = (CUSTOM, VENDOR)  # providers that every table has
PEAKS_ON_GPUS = {f"fma_peak_{dtype}": dtype for dtype in PEAKS[True] if dtype != "fp32"}  # fields of KernelCeilings
SUMMED = {"gemm": "gemm", "convolution": "conv2d"}  # the kernel of each ceiling


class KernelProduct(NamedTuple):
    """Identification of one product over its rows."""

    of: str
    kernel: str
    direction: str
    shape: str
    dtype: str


class StepProducts(NamedTuple):
    """The products of a kernel in a training step of a network, in a type."""

    of: str
    kernel: str
    dtype: str


@dataclass(frozen=True)
class StepTime:
    """Time of the products of a kernel in a training step.

    count: products of a step. operations: of all of them. seconds: by provider, None where one lacks a product.
    fastest: seconds with each product by the provider that is faster. ratio: seconds of the vendor / custom.
    """

    products: StepProducts
    count: int
    operations: int
    seconds: Mapping[str, float | None]
    fastest: float
    ratio: float | None


def product_of(row: MeasuredKernel) -> KernelProduct:
    """The product that a row measures."""
    return KernelProduct(row.of, row.kernel, row.direction, row.shape, row.dtype)


def providers_of(rows: Iterable[MeasuredKernel | MissingKernel]) -> tuple[str, ...]:
    """The providers that a table has, in the order of reports."""
    return in_order((*COMPARED, *(row.provider for row in rows)))


def ratio(provider: float | None, vendor: float | None) -> float | None:
    """Seconds of the vendor / seconds of a provider; None where one was not measured."""
    return vendor / provider if provider and vendor else None


def passed(rows: Sequence[KernelRow]) -> list[KernelRow]:
    """The rows that may be ceilings."""
    return [row for row in rows if row.verdict == "PASSED"]


def fastest(rows: Sequence[KernelRow]) -> list[KernelRow]:
    """One row of each product: that of the provider which took less time."""
    found: dict[KernelProduct, KernelRow] = {}
    for row in rows:
        before = found.get(product_of(row))
        found[product_of(row)] = row if before is None or row.seconds < before.seconds else before
    return list(found.values())


def ceilings(rows: Sequence[KernelRow], dtype: str = "fp32") -> KernelCeilings:
    """FLOP/s in a type and bytes/s of one rank, from rows that PASSED; None without such rows.

    Products count as often as in a step of their network, each by its fastest provider (HPC AI500 V2, section on the
    roofline: convolution and GEMM are the upper bound).
    """
    sound = passed(rows)
    return KernelCeilings(
        fma_peak=_peak(sound, dtype),
        gemm=_mean_rate(_products(sound, "gemm", dtype)),
        convolution=_mean_rate(_products(sound, "convolution", dtype)),
        triad=_bandwidth(sound, TRIAD),
    )


def table_ceilings(rows: Sequence[KernelRow]) -> KernelCeilings:
    """Ceilings in fp32 and, on a GPU, also of the copy and of the FMA peaks of the other types."""
    found = ceilings(rows)
    if all(row.kernel != COPY for row in rows):
        return found
    sound = passed(rows)
    return KernelCeilings(
        fma_peak=found.fma_peak,
        gemm=found.gemm,
        convolution=found.convolution,
        triad=found.triad,
        copy=_bandwidth(sound, COPY),
        **{name: _peak(sound, dtype) for name, dtype in PEAKS_ON_GPUS.items()},
    )


def _peak(rows: Sequence[KernelRow], dtype: str) -> float | None:
    rates = (row.operations / row.seconds for row in rows if (row.kernel, row.dtype) == (FMA_PEAK, dtype))
    return max(rates, default=None)


def _bandwidth(rows: Sequence[KernelRow], kernel: str) -> float | None:
    return max((row.nbytes / row.seconds for row in rows if row.kernel == kernel), default=None)


def _products(rows: Sequence[KernelRow], ceiling: str, dtype: str) -> list[KernelRow]:
    return [row for row in rows if (row.kernel, row.dtype) == (SUMMED[ceiling], dtype)]


def _mean_rate(rows: Sequence[KernelRow]) -> float | None:
    best = fastest(rows)
    seconds = _seconds(best)
    return sum(row.occurrences * row.operations for row in best) / seconds if seconds else None


def step_times(rows: Sequence[KernelRow]) -> Iterator[StepTime]:
    """Time of each kernel's products in a training step, by network and type."""
    for step in dict.fromkeys(_step(row) for row in rows if row.direction in DIRECTIONS):
        own = [row for row in rows if _step(row) == step]
        best, products = fastest(own), {product_of(row) for row in own}
        by = {provider: [row for row in own if row.provider == provider] for provider in providers_of(own)}
        seconds = {name: _seconds(some) if len(some) == len(products) else None for name, some in by.items()}
        yield StepTime(
            products=step,
            count=sum(row.occurrences for row in best),
            operations=sum(row.occurrences * row.operations for row in best),
            seconds=seconds,
            fastest=_seconds(best),
            ratio=ratio(seconds[CUSTOM], seconds[VENDOR]),
        )


def _step(row: KernelRow) -> StepProducts:
    return StepProducts(row.of, row.kernel, row.dtype)


def _seconds(rows: Sequence[KernelRow]) -> float:
    return float(sum(row.occurrences * row.seconds for row in rows))

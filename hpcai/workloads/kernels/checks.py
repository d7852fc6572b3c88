"""Table of `[kernels]` from measured times: rates, shares of the peak, provider ratios, verdicts."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hpcai.formulas.clocks import CallTime
from hpcai.inputfile import Case
from hpcai.kernels.layers import MeasuredShape
from hpcai.kernels.providers import CUSTOM, VENDOR
from hpcai.kernels.residual import ELEMENTWISE_LIMIT
from hpcai.kernels.spec import DTYPES
from hpcai.opcount.ceilings import COPY, FMA_PEAK, TRIAD
from hpcai.opcount.needed import nominal_share
from hpcai.opcount.products import requested
from hpcai.record.processor import Processor
from hpcai.record.record import Verdict
from hpcai.results.measured import Before, Measured
from hpcai.results.physical_limits import bytes_bound, device_of, operations_bound
from hpcai.results.table import calls_agree, table
from hpcai.workloads.kernels.record import KernelRow, KernelsRaw, KernelsTable, MeasuredKernel
from hpcai.workloads.kernels.scores import KernelProduct, product_of, ratio, table_ceilings

PASSED: Verdict = "PASSED"


class _Context(NamedTuple):
    """Values with which a row is compared: FMA peaks by type, seconds by product and provider, processor, layers.

    agree: whether two clocks agree on the times of the table.
    """

    peaks: Mapping[str, float]
    seconds: Mapping[tuple[KernelProduct, str], float]
    processor: Processor | None
    layers: Mapping[KernelProduct, MeasuredShape]
    agree: bool


def build(case: Case, measured: Measured, before: Before) -> KernelsTable:
    """The table of a complete test."""
    found = rows(case, measured.raw)
    return table(KernelsTable, case, measured, verdict(found), ceilings=table_ceilings(found))


def rows(case: Case, raw: KernelsRaw) -> tuple[KernelRow, ...]:
    """The measured rows with derived values, in order."""
    custom = [row for row in raw.rows if (row.kernel, row.provider) == (FMA_PEAK, CUSTOM)]
    peaks: dict[str, float] = {row.dtype: row.operations / row.seconds for row in custom}
    seconds = {(product_of(row), row.provider): row.seconds for row in raw.rows}
    layers = _layers(case) if raw.processor else {}
    context = _Context(peaks, seconds, raw.processor, layers, calls_agree(times(raw.rows)))
    return tuple(_row(case.index, row, context) for row in raw.rows)


def times(rows: Sequence[MeasuredKernel]) -> list[CallTime]:
    """Seconds of the calls by two clocks, where there are two."""
    return [CallTime(row.seconds, row.second_clock) for row in rows if row.second_clock is not None]


def _layers(case: Case) -> dict[KernelProduct, MeasuredShape]:
    """The layers of the products of networks."""
    found = ((KernelProduct(each.of, each.kernel, each.direction, each.shape, each.dtype), each.layer)
             for each in requested(case))
    return dict(found)


def _bound(measured: MeasuredKernel, context: _Context) -> float | None:
    """What no rate of the row exceeds: operations, of triad and copy bytes, per second; None if unknown."""
    processor = context.processor
    if processor is None or measured.kernel in (TRIAD, COPY):
        return bytes_bound(processor)
    most, layer = operations_bound(processor, measured.dtype), context.layers.get(product_of(measured))
    if most is None or layer is None:
        return most
    return most * nominal_share(layer, device_of(processor), measured.provider == VENDOR)


def _row(test: int, measured: MeasuredKernel, context: _Context) -> KernelRow:
    rate, product = measured.operations / measured.seconds, product_of(measured)
    peak = context.peaks.get(measured.dtype)
    compared, most = CUSTOM if measured.provider == VENDOR else measured.provider, _bound(measured, context)
    return KernelRow(
        test=test,
        kernel=measured.kernel,
        direction=measured.direction,
        shape=measured.shape,
        of=measured.of,
        occurrences=measured.occurrences,
        dtype=measured.dtype,
        threads=measured.threads,
        provider=measured.provider,
        variant=measured.variant,
        operations=measured.operations,
        nbytes=measured.nbytes,
        seconds=measured.seconds,
        residual=measured.residual,
        checked=measured.checked,
        gflops=rate / 1e9,
        intensity=measured.operations / measured.nbytes if measured.nbytes else None,
        share=rate / peak if peak else None,
        ratio=ratio(context.seconds.get((product, compared)), context.seconds.get((product, VENDOR))),
        first_seconds=measured.first_seconds,
        spot_residual=measured.spot_residual,
        spot_checks=measured.spot_checks,
        second_clock=measured.second_clock,
        verdict=PASSED if context.agree and _right(measured) and possible(measured, most) else "FAILED",
        bound=most,
    )


def _right(row: MeasuredKernel) -> bool:
    """Whether the results were right, the whole ones and the elements checked between timed calls."""
    return max(row.residual, row.spot_residual or 0.0) <= limit(row.dtype)


def possible(row: MeasuredKernel, most: float | None) -> bool:
    """Whether the rate is within its bound."""
    return most is None or _bounded(row) <= most * row.seconds


def _bounded(row: MeasuredKernel) -> int:
    """Operations of a row, or the bytes of one that moves memory, whose rate has a bound."""
    return row.nbytes if row.kernel in (TRIAD, COPY) else row.operations


def limit(dtype: str) -> float:
    """Largest residual of a row that PASSED: 0 for integers, else the limit of the element-wise residual."""
    return 0.0 if DTYPES[dtype].exact else ELEMENTWISE_LIMIT


def verdict(rows: Sequence[KernelRow]) -> Verdict:
    """PASSED if every row is; FAILED without rows."""
    return PASSED if rows and all(row.verdict == PASSED for row in rows) else "FAILED"

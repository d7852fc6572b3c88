"""Table of `[kernels]` from measured times: rates, shares of the peak, provider ratios, verdicts."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hpcai.inputfile import Case
from hpcai.kernels.providers import CUSTOM, VENDOR
from hpcai.kernels.residual import ELEMENTWISE_LIMIT
from hpcai.kernels.spec import DTYPES
from hpcai.opcount.ceilings import FMA_PEAK
from hpcai.record.record import Verdict
from hpcai.results.entry import entry
from hpcai.results.measured import Before, Measured
from hpcai.workloads.kernels.record import KernelRow, KernelsRaw, KernelsTable, MeasuredKernel
from hpcai.workloads.kernels.scores import KernelProduct, product_of, ratio, table_ceilings

PASSED: Verdict = "PASSED"


class _Context(NamedTuple):
    """Values with which a row is compared: FMA peaks by type, and seconds by product and provider."""

    peaks: Mapping[str, float]
    seconds: Mapping[tuple[KernelProduct, str], float]


def build(case: Case, measured: Measured, before: Before) -> KernelsTable:
    """The table of a complete test."""
    found = rows(case, measured.raw)
    return entry(KernelsTable, case, measured, verdict(found), ceilings=table_ceilings(found))


def rows(case: Case, raw: KernelsRaw) -> tuple[KernelRow, ...]:
    """The measured rows with derived values, in order."""
    custom = [row for row in raw.rows if (row.kernel, row.provider) == (FMA_PEAK, CUSTOM)]
    peaks: dict[str, float] = {row.dtype: row.operations / row.seconds for row in custom}
    context = _Context(peaks, {(product_of(row), row.provider): row.seconds for row in raw.rows})
    return tuple(_row(case.index, row, context) for row in raw.rows)


def _row(test: int, measured: MeasuredKernel, context: _Context) -> KernelRow:
    rate, product = measured.operations / measured.seconds, product_of(measured)
    peak = context.peaks.get(measured.dtype)
    compared = CUSTOM if measured.provider == VENDOR else measured.provider
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
        verdict=PASSED if measured.residual <= limit(measured.dtype) else "FAILED",
    )


def limit(dtype: str) -> float:
    """Largest residual of a row that PASSED: 0 for integers, else the limit of the element-wise residual."""
    return 0.0 if DTYPES[dtype].exact else ELEMENTWISE_LIMIT


def verdict(rows: Sequence[KernelRow]) -> Verdict:
    """PASSED if every row is; FAILED without rows."""
    return PASSED if rows and all(row.verdict == PASSED for row in rows) else "FAILED"

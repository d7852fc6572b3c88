"""Printed table of a test of `[kernels]`: ceilings, a line for each product and provider, sums per network."""

from collections.abc import Iterator, Sequence

from hpcai.inputfile import Case
from hpcai.kernels.spec import DTYPES
from hpcai.kernels.verify import EVERY_ELEMENT
from hpcai.opcount.ceilings import CEILING, FMA_PEAK
from hpcai.opcount.products import SQUARE
from hpcai.report.table_checks import clock_lines
from hpcai.report.text import counted, free, printed
from hpcai.workloads.kernels.checks import PASSED, limit, possible, times
from hpcai.workloads.kernels.layer_lines import layers
from hpcai.workloads.kernels.record import KernelRow, KernelsTable, MissingKernel
from hpcai.workloads.kernels.scores import StepTime, step_times

LINE = "=" * 80
SHAPE = 46  # columns
HEAD = (
    f"{'shape':<{SHAPE}} {'direction':<15} {'type':<5} {'provider':<8} {'time, ms':>12} {'GFLOP/s':>10} "
    f"{'bound':>10} {'ratio':>7} {'of peak':>8} {'FLOP/byte':>10} {'residual':>12} verdict"
)
NAMES = {"gemm": "matrix products", "conv2d": "convolutions", "attention": "attention"}
LETTERS = (
    "n images, c channels, h x w pixels, f filters, k kernel, s stride, p padding, d dilation, g groups; "
    "matrices m x k by k x n"
)
OF_ATTENTION = "attention: n sequences, h heads, s places, d features of a head"
MEANINGS = (
    "ratio: time of the vendor / time of custom; of peak: share of the FMA peak of that type; "
    "residual: at most 1, of int8 wrong elements or random sums; "
    "bound: by the processor's cycles and units"
)
NONE = "-"


def block(table: KernelsTable, rows: Sequence[KernelRow]) -> str:
    """The printed table of one test; `rows` are its rows."""
    return printed(_lines(table, rows))


def _lines(table: KernelsTable, rows: Sequence[KernelRow]) -> Iterator[str]:
    raw = table.raw
    what = f"{counted(raw.ranks, 'rank')} at once, {counted(raw.threads, 'thread')} each, {_passed(rows)}"
    yield LINE
    yield f"Kernels, test {table.index}: {what} ...... {table.verdict}"
    yield f"  {LETTERS}"
    if any(row.kernel == "attention" for row in rows):
        yield f"  {OF_ATTENTION}"
    yield f"  {MEANINGS}"
    yield from (_ceiling(row, raw.ranks) for row in rows if row.of == CEILING)
    for of in dict.fromkeys(row.of for row in rows if row.of != CEILING):
        yield from _products(table, of, rows)
    yield from map(_missing, raw.missing)
    yield from clock_lines(table, times(rows))
    yield ""


def _products(table: KernelsTable, of: str, rows: Sequence[KernelRow]) -> Iterator[str]:
    """The products of a network, their sums, and its layers under the roofline; or the square products."""
    own = [row for row in rows if row.of == of]
    yield from ("", _title(table, of), HEAD, "-" * len(HEAD))
    yield from map(_row, own)
    yield from map(_sum, step_times(own))
    if of != SQUARE:
        case = Case(table.index, table.workload, table.settings)
        for dtype in dict.fromkeys(row.dtype for row in own):
            yield from ("", *(f"  {line}" for line in layers(case, of, rows, dtype)))


def _passed(rows: Sequence[KernelRow]) -> str:
    passed = sum(row.verdict == PASSED for row in rows)
    return f"{passed} of {counted(len(rows), 'row')} passed"


def _title(table: KernelsTable, of: str) -> str:
    squares = "square matrices (int8: integer operations, Gop/s)"
    return squares if of == SQUARE else f"{of}, batch {table.settings['BATCH']}"


def _ceiling(row: KernelRow, ranks: int) -> str:
    """A ceiling of one rank, and of all ranks together."""
    name, rate, unit = row.kernel, row.nbytes / row.seconds / 1e9, "GB/s"
    if row.kernel == FMA_PEAK:
        rate, unit = row.gflops, "Gop/s" if DTYPES[row.dtype].exact else "GFLOP/s"
    title = f"{'FMA peak' if row.kernel == FMA_PEAK else name} {row.dtype}, {row.provider}"
    rates = f"{rate:12.2f} {unit} a rank, {ranks * rate:12.2f} all, bound {_bound(row)} a rank"
    return f"  {title:<26}: {rates}, {_residual(row)} {row.verdict}{_notes(row)}"


def _row(row: KernelRow) -> str:
    shape = row.shape + (f" {row.occurrences} times" if row.occurrences > 1 else "")
    numbers = f"{1e3 * row.seconds:12.4f} {row.gflops:10.2f} {_bound(row)} {_or_none(row.ratio, 7, 3)}"
    shares = f"{_or_none(row.share, 8, 3)} {_or_none(row.intensity, 10, 2)} {_residual(row)}"
    return (
        f"{shape:<{SHAPE}} {row.direction:<15} {row.dtype:<5} {row.provider:<8} {numbers} {shares} "
        f"{row.verdict}{_notes(row)}"
    )


def _bound(row: KernelRow) -> str:
    """The bound of the rate, in 10^9 per second."""
    return _or_none(None if row.bound is None else row.bound / 1e9, 10, 2)


def _notes(row: KernelRow) -> str:
    """The variant of the kernel, how it was verified if not element by element, and why a row FAILED."""
    how = "" if row.checked == EVERY_ELEMENT else row.checked
    between = (row.spot_residual or 0.0) > limit(row.dtype)
    above = "rate above its bound" if not possible(row, row.bound) else ""
    words = (row.variant, how, f"elements between calls {row.spot_residual:.4f}" if between else "", above)
    return "".join(f", {word}" for word in words if word)


def _or_none(value: float | None, width: int, digits: int) -> str:
    return f"{NONE:>{width}}" if value is None else f"{value:{width}.{digits}f}"


def _residual(row: KernelRow) -> str:
    return f"{row.residual:12.0f}" if DTYPES[row.dtype].exact else f"{row.residual:12.4f}"


def _sum(time: StepTime) -> str:
    """Sum over all products of a kernel in a step."""
    rate = time.operations / time.fastest / 1e9
    seconds = ", ".join(f"{provider} {_milliseconds(taken)}" for provider, taken in time.seconds.items())
    compared = "" if time.ratio is None else f", ratio {time.ratio:.3f}"
    dtype = "" if time.products.dtype == "fp32" else f" in {time.products.dtype}"
    what = f"{NAMES[time.products.kernel]}{dtype}, {time.count} in a step"
    return f"  {what:<36}: {seconds}{compared}; each by the faster provider {rate:.2f} GFLOP/s"


def _milliseconds(seconds: float | None) -> str:
    return f"{NONE} ms" if seconds is None else f"{1e3 * seconds:.4f} ms"


def _missing(each: MissingKernel) -> str:
    return f"  not measured: {each.kernel} {each.dtype}, {each.provider}: {free(each.why)}"

"""Printed table of a test of `[comm]`, in the layout of nccl-tests."""

from collections.abc import Iterator, Sequence

from hpcai.report.table_checks import clock_lines
from hpcai.report.text import printed
from hpcai.workloads.comm.checks import average_busbw, blocks, times, verdict
from hpcai.workloads.comm.record import CollectiveRow, CommRaw, CommTable, Fit

LINE = "=" * 80
COLUMNS = (
    f"{'size':>12}  {'count':>12}  {'type':>8}  {'redop':>6}  {'root':>6}  "
    f"{'time':>12}  {'algbw':>9}  {'busbw':>9}  {'#wrong':>7}"
)
UNITS = f"{'(B)':>12}  {'(elements)':>12}  {'':>8}  {'':>6}  {'':>6}  {'(us)':>12}  {'(GB/s)':>9}  {'(GB/s)':>9}"
EXPLANATION = (
    "size and count as nccl-tests define them; time of one call of the slowest rank; all communicators work at once.",
    "algbw = size / time; busbw = algbw x 2(n-1)/n of all_reduce, (n-1)/n of reduce_scatter and all_gather, 1 of",
    "broadcast, n ranks of a communicator. #wrong: wrong elements of all ranks, before the timed calls and after.",
    "hierarchical and torus: all_reduce in the phases of these choices of ALLREDUCE, over the ranks of a group.",
)
TOO_SMALL = "less than one element for each rank"
FITTED = f"{'collective':<14}  {'scope':<7}  {'by':<4}  {'alpha (us)':>12}  {'1/beta (GB/s)':>14}  {'error (%)':>10}"


def block(table: CommTable, rows: Sequence[CollectiveRow]) -> str:
    """The table of one test: a block for each collective, scope and backend, then the models that fit their times."""
    return printed([*_head(table, rows), *_blocks(rows), *_average(rows), *_fits(table.fits), ""])


def _head(table: CommTable, rows: Sequence[CollectiveRow]) -> Iterator[str]:
    settings = table.settings
    yield LINE
    yield (
        f"Collectives, test {table.index}: P x Q = {settings['GROUPS']} x {settings['DEGREE']}, "
        f"mapped by {settings['MAPPING']} ...... {table.verdict}"
    )
    yield from clock_lines(table, times(rows))
    yield from EXPLANATION
    yield from (f"Skipped: {what}" for what in _skipped(table.raw))
    yield ""


def _skipped(raw: CommRaw) -> Iterator[str]:
    """Scopes, collectives of a backend, and sizes that were not measured, and why."""
    yield from (f"{each.scope}: {each.why}" for each in raw.skipped)
    yield from (f"{each.scope}, {each.collective} by {each.by}: {each.why}" for each in raw.unsupported)
    for each in raw.too_small:
        yield f"{each.scope}, {each.collective} by {each.by}, {each.nbytes} B: {TOO_SMALL}"


def _blocks(rows: Sequence[CollectiveRow]) -> Iterator[str]:
    for (collective, scope, by), block in blocks(rows).items():
        which = f"{collective} over {scope} by {by}"
        yield f"# {which}, ranks of a communicator: {block[0].ranks}"
        yield f"#{COLUMNS[1:]}"
        yield f"#{UNITS[1:]}"
        yield from map(_row, block)
        yield f"# Average bus bandwidth, {which}: {_rate(average_busbw(block))} ...... {verdict(block)}"
        yield ""


def _row(row: CollectiveRow) -> str:
    return (
        f"{row.nbytes:>12}  {row.count:>12}  {row.type:>8}  {row.redop:>6}  {row.root:>6}  "
        f"{row.seconds * 1e6:>12.2f}  {row.algbw / 1e9:>9.3f}  {row.busbw / 1e9:>9.3f}  {row.wrong:>7}"
    )


def _rate(rate: float) -> str:
    return f"{rate / 1e9:.3f} GB/s"


def _average(rows: Sequence[CollectiveRow]) -> Iterator[str]:
    if rows:
        yield f"# Average bus bandwidth of all {len(rows)} rows: {_rate(average_busbw(rows))}"
        yield ""


def _fits(fits: Sequence[Fit]) -> Iterator[str]:
    if fits:
        yield "# time = alpha + beta x size, by least squares of the relative errors; error: the largest of them"
        yield "# n/a: fewer than two sizes PASSED; of 1/beta: beta is 0"
        yield f"# {FITTED}"
        yield from map(_fit, fits)


def _fit(fit: Fit) -> str:
    alpha = _number(fit.alpha, 1e6, 2)
    bandwidth = _number(1 / fit.beta if fit.beta else None, 1e-9, 3)
    which = f"{fit.collective:<14}  {fit.scope:<7}  {fit.by:<4}"
    return f"  {which}  {alpha:>12}  {bandwidth:>14}  {_number(fit.error, 100, 1):>10}"


def _number(value: float | None, unit: float, digits: int) -> str:
    return "n/a" if value is None else f"{value * unit:.{digits}f}"

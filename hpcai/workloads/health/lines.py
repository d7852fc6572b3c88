"""Printed table of a test of `[health]`: a line for each rate, then the slow nodes, or the slowest one."""

from collections.abc import Iterator

from hpcai.formulas.node_health import LISTED
from hpcai.report.table_checks import clock_lines
from hpcai.report.text import counted, free, printed
from hpcai.workloads.health.record import HealthTable, NodeRates, RateVerdict, SlowNode

LINE = "=" * 80
PREFIX = 1e9
EXPLANATION = (
    "The rate of a node is that of its slowest rank, in the best of several measurements, all nodes at once.",
    "all_reduce: bus bandwidth; links: each way between two ranks, all pairs of two nodes at once, best of several",
    "partners. Nodes below the limit are slow; a rank whose numbers were wrong has the rate 0.",
)
HEAD = (
    f"{'rate':<24} {'unit':<8} {'minimum':>10} {'quartile':>10} {'median':>10} {'quartile':>10} {'maximum':>10} "
    f"{'limit':>10} {'slow':>6} verdict"
)


def block(table: HealthTable, rows: object = ()) -> str:
    """The printed table of one test."""
    return printed(_lines(table))


def _lines(table: HealthTable) -> Iterator[str]:
    raw = table.raw
    what = f"{counted(raw.nodes, 'node')}, {counted(raw.ranks, 'rank')} at once, {counted(raw.threads, 'thread')} each"
    yield LINE
    yield f"Node health, test {table.index}: {what} ...... {table.verdict}"
    yield from (f"  {line}" for line in EXPLANATION)
    yield from ("", HEAD, "-" * len(HEAD))
    pairs = [*zip(raw.rates, table.verdicts, strict=True)]
    yield from (_rate(*pair) for pair in pairs)
    yield ""
    for pair in pairs:
        yield from _nodes(*pair)
    yield from (f"  not measured: {each.quantity}: {free(each.why)}" for each in raw.skipped)
    yield from clock_lines(table, ())
    yield ""


def _rate(rates: NodeRates, found: RateVerdict) -> str:
    middle = (rates.minimum, rates.lower_quartile, rates.median, rates.upper_quartile, rates.maximum, found.limit)
    numbers = " ".join(f"{value / PREFIX:10.3f}" for value in middle)
    return f"{rates.quantity:<24} {f'G{rates.unit}':<8} {numbers} {rates.slow:>6} {found.verdict}"


def _nodes(rates: NodeRates, found: RateVerdict) -> Iterator[str]:
    """The slow nodes, as far as they are listed; the slowest one where none is slow."""
    slow = [node for node in rates.slowest if node.rate < found.limit or node.rate == 0]
    for node in slow or rates.slowest[:1]:
        yield f"  {'slow' if slow else 'slowest'}: {_node(node, rates)} ...... {'FAILED' if slow else 'PASSED'}"
    if rates.slow > LISTED:
        yield f"  slow: {rates.slow - LISTED} more nodes, not listed"


def _node(node: SlowNode, rates: NodeRates) -> str:
    share = f"{node.rate / rates.median:.3f} of the median" if rates.median else "no median"
    wrong = "" if node.rate else ", wrong numbers"
    times = counted(rates.attempts, "measurement")
    return (
        f"{rates.quantity} of {free(node.host)}, rank {node.rank}: {node.rate / PREFIX:.3f} G{rates.unit}, "
        f"{share}{wrong}, {times}"
    )

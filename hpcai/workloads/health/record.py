"""Records of `[health]`: order statistics of the nodes' rates, the slowest nodes, and the verdicts."""

from typing import Annotated, Literal

from msgspec import Meta

from hpcai.formulas.node_health import ATTEMPTS, LISTED
from hpcai.record.entry import Table
from hpcai.record.record import Count, Name, NonNegative, Positive, Record, Verdict, about

Unit = Literal["FLOP/s", "B/s"]
UNITS = "FLOP/s or B/s"


class SlowNode(Record, kw_only=True):
    """One of the slowest nodes."""

    host: Annotated[Name, about("host name")]
    rank: Annotated[Count, about("its slowest rank, whose rate is the node's")]
    rate: Annotated[NonNegative, about("rate; 0 where a result was wrong", unit=UNITS)]


class NodeRates(Record, kw_only=True):
    """A rate of all nodes; the rate of a node is that of its slowest rank, the best of all attempts."""

    quantity: Annotated[Name, about("gemm or triad and the type, all_reduce within a node, or links between nodes")]
    unit: Annotated[Unit, about("unit of the rates")]
    attempts: Annotated[
        Positive, Meta(le=ATTEMPTS), about(f"measurements; more than one where a node was slow, {ATTEMPTS} at most")
    ]
    minimum: Annotated[NonNegative, about("rate of the slowest node", unit=UNITS)]
    lower_quartile: Annotated[NonNegative, about("rate that a quarter of the nodes do not exceed", unit=UNITS)]
    median: Annotated[NonNegative, about("median of the nodes' rates", unit=UNITS)]
    upper_quartile: Annotated[NonNegative, about("rate that a quarter of the nodes reach", unit=UNITS)]
    maximum: Annotated[NonNegative, about("rate of the fastest node", unit=UNITS)]
    deviation: Annotated[NonNegative, about("median of abs(rate - median)", unit=UNITS)]
    slow: Annotated[Count, about("nodes below the limit")]
    slowest: Annotated[
        tuple[SlowNode, ...],
        Meta(max_length=LISTED),
        about(f"the slowest nodes, ascending; of many the first {LISTED}"),
    ]


class SkippedRate(Record, kw_only=True):
    """A rate that was not measured."""

    quantity: Annotated[Name, about("rate")]
    why: Annotated[Name, about("reason")]


class HealthRaw(Record, kw_only=True):
    """Raw measurements of `[health]`."""

    nodes: Annotated[Positive, about("nodes of the job")]
    ranks: Annotated[Positive, about("ranks that were measured at once")]
    threads: Annotated[Positive, about("threads of a rank, of the rank with fewest")]
    rates: Annotated[tuple[NodeRates, ...], about("rates measured")]
    skipped: Annotated[tuple[SkippedRate, ...], about("rates that were not measured")]


class RateVerdict(Record, kw_only=True):
    """The verdict on a rate of the nodes."""

    quantity: Annotated[Name, about("rate")]
    limit: Annotated[
        NonNegative,
        about(
            "nodes below it are slow: median x (1 - TOLERANCE), of five nodes or more also five standard deviations "
            "below it (1.4826 x deviation) if that is less; at least half of the median",
            unit=UNITS,
        ),
    ]
    verdict: Annotated[Verdict, about("FAILED if a node is slow, or has computed or received wrong numbers")]


class HealthTable(Table, kw_only=True):
    """A test of `[health]`."""

    workload: Literal["health"] = "health"
    raw: Annotated[HealthRaw, about("raw measurements")]
    verdicts: Annotated[tuple[RateVerdict, ...], about("verdicts on the rates")]


ENTRY = HealthTable
STOPPED = None

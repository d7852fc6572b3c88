"""Table of `[health]` from the rates of the nodes: limits and verdicts."""

from hpcai.formulas.node_health import limit
from hpcai.inputfile import Case
from hpcai.record.record import Verdict
from hpcai.results.measured import Before, Measured
from hpcai.results.table import table
from hpcai.workloads.health.record import HealthRaw, HealthTable, NodeRates, RateVerdict

ALL_REDUCE, LINKS = "all_reduce within a node", "links between nodes"


def build(case: Case, measured: Measured, before: Before) -> HealthTable:
    """The table of a complete test."""
    found = tuple(_verdict(case, rates, measured.raw.nodes) for rates in measured.raw.rates)
    verdict: Verdict = "FAILED" if any(each.verdict == "FAILED" for each in found) else "PASSED"
    return table(HealthTable, case, measured, verdict, verdicts=found)


def _verdict(case: Case, rates: NodeRates, nodes: int) -> RateVerdict:
    return RateVerdict(
        quantity=rates.quantity,
        limit=limit(rates.median, rates.deviation, nodes, case["TOLERANCE"]),
        verdict="FAILED" if rates.slow or rates.minimum == 0 else "PASSED",
    )


def gemm(dtype: str) -> str:
    """Name of the rate of the matrix products of a type."""
    return f"gemm {dtype}"


TRIAD = "triad fp64"


def asked_for(case: Case) -> tuple[str, ...]:
    """Names of the rates of a case, in order."""
    return (*map(gemm, case["TYPES"]), TRIAD, ALL_REDUCE, LINKS)


def below(raw: HealthRaw, found: RateVerdict) -> list[str]:
    """Hosts of the listed nodes that are below the limit of a rate."""
    (rates,) = (each for each in raw.rates if each.quantity == found.quantity)
    return [node.host for node in rates.slowest if node.rate < found.limit]

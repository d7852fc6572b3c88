"""Claims about the rates of nodes: what follows from the input, the machine and the order of the values."""

from itertools import pairwise

from hpcai.claims.memory_claims import MEMORY
from hpcai.claims.telemetry_claims import TELEMETRY
from hpcai.formulas.collectives import ONE_RANK
from hpcai.formulas.node_health import ATTEMPTS, LISTED
from hpcai.results.alterations import appended, changed, removed, together
from hpcai.results.claim import Claim, Claims, Subject
from hpcai.workloads.health.checks import ALL_REDUCE, LINKS, asked_for, below, gemm
from hpcai.workloads.health.record import HealthRaw, NodeRates

THREE_NODES = "three nodes"  # example
NEVER_SKIPPED = gemm("fp32")
MIDDLE = ("minimum", "lower_quartile", "median", "upper_quartile", "maximum")


def _raw(subject: Subject) -> HealthRaw:
    raw: HealthRaw = subject.entry.raw
    return raw


def _rates(subject: Subject) -> tuple[NodeRates, ...]:
    return _raw(subject).rates


def _every(subject: Subject) -> bool:
    raw = _raw(subject)
    names = [*(each.quantity for each in raw.rates), *(each.quantity for each in raw.skipped)]
    measured = [name for name in asked_for(subject.case) if name in {each.quantity for each in raw.rates}]
    return sorted(names) == sorted(asked_for(subject.case)) and measured == [each.quantity for each in raw.rates]


def _skipped(subject: Subject) -> bool:
    """Whether links are skipped on one node, and only there; other rates where they may be."""
    raw = _raw(subject)
    why = {each.quantity: each.why for each in raw.skipped}
    alone = why.get(ALL_REDUCE, ONE_RANK) == ONE_RANK and (ALL_REDUCE in why or raw.ranks >= 2 * raw.nodes)
    return (LINKS in why) == (raw.nodes == 1) and alone and NEVER_SKIPPED not in why


def _ordered(rates: NodeRates) -> bool:
    values = [getattr(rates, name) for name in MIDDLE]
    return all(one <= other for one, other in pairwise(values)) and rates.deviation <= rates.maximum


def _listed(subject: Subject) -> bool:
    wanted = min(LISTED, _raw(subject).nodes)
    return all(len(rates.slowest) == wanted for rates in _rates(subject))


def _ascending(rates: NodeRates) -> bool:
    values = [node.rate for node in rates.slowest]
    return values == sorted(values) and values[0] == rates.minimum and values[-1] <= rates.maximum


def _slow(subject: Subject) -> bool:
    """Whether the number of slow nodes is that of the listed ones below the limit; larger only if all are listed."""
    raw = _raw(subject)
    for rates, verdict in zip(raw.rates, subject.entry.verdicts, strict=True):
        listed = len(below(raw, verdict))
        if rates.slow != listed and not (listed == LISTED < rates.slow <= raw.nodes):
            return False
    return True


CLAIMS: Claims = (
    (
        *MEMORY,
        *TELEMETRY,
        Claim(
            "nodes: those of the environment",
            lambda subject: _raw(subject).nodes == subject.environment.nodes,
            changed("raw.nodes", 3),
        ),
        Claim(
            "ranks: those of the environment",
            lambda subject: _raw(subject).ranks == subject.environment.ranks,
            changed("raw.ranks", 5),
        ),
        Claim("rates: those asked for, each once, in order", _every, removed("raw.rates.-1")),
        Claim(
            "skipped: links of one node, sums of nodes with one rank, types that only GPUs compute",
            _skipped,
            together(removed("raw.rates.-1"), appended("raw.skipped", {"quantity": LINKS, "why": "one node"})),
            THREE_NODES,
        ),
    ),
    (
        Claim(
            "rates: order statistics ascend",
            lambda subject: all(map(_ordered, _rates(subject))),
            changed("raw.rates.0.median", 1e30),
        ),
        Claim("slowest: as many nodes as there are, or as can be listed", _listed, removed("raw.rates.0.slowest.-1")),
        Claim(
            "slowest: each a rank of the job, none twice",
            lambda subject: all(
                len({node.rank for node in rates.slowest} & {*range(_raw(subject).ranks)}) == len(rates.slowest)
                for rates in _rates(subject)
            ),
            changed("raw.rates.0.slowest.*.rank", 0),
            THREE_NODES,
        ),
    ),
    (
        Claim(
            "slowest: ascending from the minimum on",
            lambda subject: all(map(_ascending, _rates(subject))),
            changed("raw.rates.0.slowest.0.rate", 1e30),
        ),
        Claim("slow: nodes below the limit", _slow, changed("raw.rates.0.slow", 1)),
        Claim(
            "attempts: all of them where a node is slow",
            lambda subject: all(rates.attempts == ATTEMPTS for rates in _rates(subject) if rates.slow),
            together(
                changed("raw.rates.0.slow", 1),
                changed("raw.rates.0.slowest.0.rate", 0.0),
                changed("raw.rates.0.minimum", 0.0),
            ),
        ),
    ),
)
STOPPED_CLAIMS: Claims = ()

"""Claims about the telemetry of several nodes: how many, and their values over time."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import isclose
from typing import Any

from hpcai.machine.node_sensors import NAMES, SHARES
from hpcai.machine.resampling import common_times, resampled
from hpcai.machine.telemetry import DIGITS
from hpcai.record.entry import Row
from hpcai.record.machine import MOST_NODES, OverNodes, Quantities, Telemetry
from hpcai.results.alterations import Alteration, changed
from hpcai.results.claim import Claim, Subject

Values = Sequence[float | None]
ROUNDING = [10.0**-DIGITS if name in SHARES else 1.0 for name in NAMES]


def sampled_of(subject: Subject) -> Telemetry | None:
    """The telemetry of an entry, None if there is none."""
    telemetry: Telemetry | None = subject.entry.telemetry
    return telemetry


def values_of(quantities: Quantities) -> Values:
    """Quantities in the order of NAMES."""
    return tuple(getattr(quantities, name) for name in NAMES)


def alike(one: float | None, other: float | None, error: float = 0.0) -> bool:
    """Whether both are None, or equal up to an error, and to the rounding of sums."""
    return one is other if one is None or other is None else isclose(one, other, rel_tol=1e-12, abs_tol=error)


def series_of(sampled: Telemetry) -> list[Sequence[Values]]:
    """The samples of each node; empty if not all are kept."""
    kept: list[Sequence[Values]] = [sampled.series, *(node.series for node in sampled.further)]
    return kept if len(kept) == sampled.nodes else []


def _over_nodes(subject: Subject) -> OverNodes | None:
    sampled = sampled_of(subject)
    return sampled.over_nodes if sampled else None


def _nodes(subject: Subject) -> bool:
    """Older results, which have one node over time, sampled all nodes of the job."""
    sampled, entry, nodes = sampled_of(subject), subject.entry, subject.environment.nodes
    if sampled is None or sampled.nodes == 1:
        return True
    if sampled.over_nodes is None or not isinstance(entry, Row):
        return sampled.nodes == nodes
    return sampled.nodes <= min(nodes, entry.p * entry.q)


def _several(subject: Subject) -> bool:
    sampled = sampled_of(subject)
    return sampled is None or sampled.over_nodes is None or sampled.nodes > 1


def _kept(subject: Subject) -> bool:
    sampled = sampled_of(subject)
    if sampled is None or sampled.over_nodes is None:
        return sampled is None or not sampled.further
    return len(sampled.further) == (sampled.nodes - 1 if sampled.nodes <= MOST_NODES else 0)


def _times(subject: Subject) -> bool:
    found = _over_nodes(subject)
    if found is None:
        return True
    lengths = {len(found.seconds), len(found.mean), len(found.least), len(found.most)}
    return len(lengths) == 1 and all(begin < end for begin, end in pairwise([0.0, *found.seconds]))


def _between(subject: Subject) -> bool:
    found = _over_nodes(subject)
    return found is None or all(
        _ordered(*values)
        for rows in zip(found.least, found.mean, found.most, strict=False)
        for values in zip(*rows, strict=True)
    )


def _ordered(least: float | None, mean: float | None, most: float | None) -> bool:
    if least is None or mean is None or most is None:
        return least is mean is most
    return least <= mean <= most


def _resampled(subject: Subject) -> bool:
    """Whether the values over time follow from the samples of the nodes, where all are kept."""
    sampled, found = sampled_of(subject), _over_nodes(subject)
    kept = series_of(sampled) if sampled else []
    if found is None or not kept:
        return True
    ends = common_times(min(_last(rows) for rows in kept), min(map(len, kept)))
    nodes = [resampled(rows, ends) for rows in kept]
    return ends == [*found.seconds] and all(
        _brought_together(column, given, error)
        for at_time, *rows in zip(zip(*nodes, strict=True), found.least, found.mean, found.most, strict=False)
        for column, given, error in zip(zip(*at_time, strict=True), zip(*rows, strict=True), ROUNDING, strict=True)
    )


def _last(rows: Sequence[Values]) -> float:
    return (rows[-1][0] or 0.0) if rows else 0.0


def _brought_together(values: Values, given: Sequence[float | None], error: float) -> bool:
    """Whether least, mean and most are those of the nodes' values."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return [*given] == [None] * 3
    least, mean, most = given
    return (least, most) == (min(known), max(known)) and alike(mean, sum(known) / len(known), error)


def _made_up(**fields: Any) -> Alteration:
    """Values of several nodes over time, in one interval."""
    rows = {name: [[0.5, *[None] * (len(NAMES) - 1)]] for name in ("mean", "least", "most")}
    return changed("telemetry.over_nodes", {"seconds": [0.001], **rows, **fields})


def _claims() -> Iterator[Claim]:
    high = [[1.0, *[None] * (len(NAMES) - 1)]]
    further = changed("telemetry.further", [{"host": "another", "series": []}])
    yield Claim("telemetry: at most the nodes of the grid", _nodes, changed("telemetry.nodes", 7))
    yield Claim("telemetry: over nodes where there are several", _several, _made_up())
    yield Claim("telemetry: samples of every node, of a limited number", _kept, further)
    yield Claim("telemetry: times of the nodes increase, with a value each", _times, _made_up(seconds=[0.1, 0.1]))
    yield Claim("telemetry: means between the least and the most", _between, _made_up(mean=high))
    yield Claim("telemetry: over nodes, of the nodes' samples", _resampled, _made_up())


OF_NODES = (*_claims(),)

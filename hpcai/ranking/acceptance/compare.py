"""Comparison of results with a baseline: a line for each metric that has a rule."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from hpcai.errors import InputError
from hpcai.ranking.acceptance.metrics import FAILED, NOT_CHECKED, PASSED, Measured, Part
from hpcai.ranking.acceptance.rules import Rule


@dataclass(frozen=True)
class Line:
    """A metric of a result beside its baseline; `change` as a share of the baseline. reason: why there is no number."""

    path: str
    host: str
    part: str
    metric: str
    value: float | None
    baseline: float | None
    rule: str
    verdict: str
    reason: str = ""

    @property
    def change(self) -> float | None:
        """The value's difference to the baseline as a share of it; None without both, or of a baseline of 0."""
        return self.value / self.baseline - 1 if self.value is not None and self.baseline else None


@dataclass(frozen=True)
class Baseline:
    """Medians of the results that results are compared with. Machine: as that of most of them."""

    results: int
    machine: Mapping[str, object]
    software: Mapping[str, str]
    parts: Mapping[str, Part]


def baseline_of(found: Sequence[Measured]) -> Baseline:
    """The baseline of the results without a FAILED check, on the commonest machine; InputError without one."""
    sound = [each for each in found if not any(part.failed for part in each.parts.values())]
    if not sound:
        raise InputError("no baseline: a check of each result is FAILED; allowed: results whose checks PASSED")
    commonest = Counter(repr(each.machine) for each in sound).most_common(1)[0][0]
    same = [each for each in sound if repr(each.machine) == commonest]
    grouped: dict[str, list[Part]] = {}
    for each in same:
        for identity, part in each.parts.items():
            grouped.setdefault(identity, []).append(part)
    parts = {identity: _median(each) for identity, each in grouped.items()}
    return Baseline(len(same), same[0].machine, same[0].software, parts)


def _median(parts: Sequence[Part]) -> Part:
    known = dict.fromkeys(name for part in parts for name in part.values)
    values = {name: median(part.values[name] for part in parts if name in part.values) for name in known}
    return Part(parts[0].group, parts[0].name, values)


def compared(one: Measured, baseline: Baseline, rules: Sequence[Rule]) -> list[Line]:
    """The lines of a result: of all parts of the baseline, then of those that it lacks."""
    lines = [line for identity, part in baseline.parts.items() for line in _part(one, identity, part, rules)]
    more = [part for identity, part in one.parts.items() if identity not in baseline.parts]
    return [*lines, *(_line(one, part, NOT_CHECKED, "not in the baseline") for part in more)]


def _part(one: Measured, identity: str, expected: Part, rules: Sequence[Rule]) -> Iterator[Line]:
    own = one.parts.get(identity)
    if own is None:
        yield _line(one, expected, FAILED, "not in the result")
        return
    if own.failed:
        yield _line(one, expected, FAILED, own.failed)
    yield from (line for rule in rules if rule.group == expected.group for line in _metric(one, own, expected, rule))


def _metric(one: Measured, own: Part, expected: Part, rule: Rule) -> Iterator[Line]:
    """The line of a metric that the result or the baseline has."""
    value, known = own.values.get(rule.metric), expected.values.get(rule.metric)
    if value is None and known is None:
        return
    verdict = _verdict(value, known, rule, rule.metric in own.smaller)
    yield Line(one.path, one.host, own.name, rule.metric, value, known, str(rule), verdict)


def _verdict(value: float | None, known: float | None, rule: Rule, smaller_is_better: bool) -> str:
    """The verdict; where smaller values are better, the share that is bounded is baseline / value."""
    if known is None or value is None:
        return NOT_CHECKED if known is None else FAILED
    passes = rule.passes(known, value) if smaller_is_better else rule.passes(value, known)
    return PASSED if passes else FAILED


def _line(one: Measured, part: Part, verdict: str, reason: str) -> Line:
    return Line(one.path, one.host, part.name, "", None, None, "", verdict, reason)

"""Claims about the seconds of a search: those of its trials, and the limit that ended it."""

from collections.abc import Sequence
from itertools import pairwise
from math import isclose

from hpcai.results.alterations import Alteration, changed, together
from hpcai.results.claim import Claim, Subject
from hpcai.workloads.nas.checks import SKEW
from hpcai.workloads.nas.record import OverGroups, SearchRaw
from hpcai.workloads.nas.search_claims import by_worker, measured, replayed

ROUNDING = 1e-6  # relative: sums of many clock readings, added in different orders
PARTS = ("training", "validation", "warmup")  # of a group's seconds; the rest is idle


def _raw(subject: Subject) -> SearchRaw:
    raw: SearchRaw = subject.entry.raw
    return raw


def _last_return(subject: Subject) -> bool:
    raw = _raw(subject)
    return isclose(max(trial.returned for trial in raw.trials), raw.seconds, rel_tol=ROUNDING)


def _group_seconds(subject: Subject) -> bool:
    """Whether the seconds of the groups are the sums of those of their trials, and idle is the rest of the search."""
    raw = _raw(subject)
    groups = by_worker(subject.case, raw).values()
    sums = [[sum(getattr(trial, f"{part}_seconds") for trial in trials) for trials in groups] for part in PARTS]
    idle = [max(0.0, raw.seconds - sum(parts)) for parts in zip(*sums, strict=True)]
    found = [getattr(raw.group_seconds, part) for part in (*PARTS, "idle")]
    return all(map(_summarised, found, [*sums, idle]))


def _summarised(found: OverGroups, values: Sequence[float]) -> bool:
    expected = (min(values), sum(values) / len(values), max(values))
    pairs = zip((found.min, found.mean, found.max), expected, strict=True)
    return all(isclose(one, other, rel_tol=ROUNDING, abs_tol=ROUNDING) for one, other in pairs)


def _over(subject: Subject) -> bool:
    """Whether the search lasted as long as DURATION allows."""
    return bool(0 < subject.case["DURATION"] <= _raw(subject).phases.search + SKEW)


def _ended_by(subject: Subject) -> bool:
    """Whether the limit that ended the search was reached; DURATION may have ended the last trials before another."""
    case, raw, over = subject.case, _raw(subject), _over(subject)
    rounds = max(trial.round for trial in raw.trials)
    reached: dict[str, bool] = {
        "trials": replayed(case) or case["TRIALS"] == len(raw.trials) or (over and case["TRIALS"] > 0),
        "rounds": case["ROUNDS"] == rounds or (over and case["ROUNDS"] > 0),
        "duration": over,
        "converged": 0 < case["WINDOW"] <= raw.phases.search + SKEW,
        "exhausted": raw.proposals.count > len(raw.trials),
    }
    return reached[raw.ended_by]


def _one_by_one(subject: Subject) -> bool:
    """Whether a group began no trial before its last step of the one before."""
    groups = by_worker(subject.case, measured(subject)).values()
    pairs = [pair for trials in groups for pair in pairwise(sorted(trials, key=lambda trial: trial.round))]
    return all(later.started >= entry.seconds - SKEW for earlier, later in pairs for entry in earlier.curve[-1:])


def _cut(subject: Subject) -> bool:
    cut = any(trial.end == "time" for trial in _raw(subject).trials)
    return not cut or _over(subject) or _raw(subject).ended_by == "converged"


def _interrupted(subject: Subject) -> bool:
    raw = measured(subject)
    return (raw.phases.interrupted is not None) == bool(raw.resumed)


def _in_order(subject: Subject) -> bool:
    raw = measured(subject)
    at = [0.0, *(raw.resumed or ()), raw.phases.search + SKEW]
    return all(one <= other for one, other in pairwise(at))


def _apart(subject: Subject) -> bool:
    """Whether each trial ended before a resumption, or began after it."""
    raw = measured(subject)
    return all(
        trial.returned <= at + SKEW or trial.given >= at - SKEW for at in raw.resumed or () for trial in raw.trials
    )


def _without_lost(subject: Subject) -> bool:
    """Whether the lost groups are in order, and have no trial that began after the last resumption."""
    raw = measured(subject)
    last, lost = (raw.resumed or (0.0,))[-1], raw.lost_groups
    apart = all(trial.given <= last for trial in raw.trials if trial.worker in lost)
    return apart and all(one < other for one, other in pairwise(lost))


def _order_claims(where: str) -> tuple[Claim, ...]:
    def at(seconds: float) -> Alteration:
        return together(changed(f"{where}resumed", [seconds]), changed(f"{where}phases.interrupted", 1.0))

    return (
        Claim("trials: one after the other in a group", _one_by_one, changed(f"{where}trials.2.started", 0.0)),
        Claim("resumed: with the time that was lost", _interrupted, changed(f"{where}resumed", [0.0])),
        Claim("resumed: at times of the search, in order", _in_order, at(1e6)),
        Claim("resumed: no trial runs across a resumption", _apart, at(1.0)),
        Claim("lost_groups: without a trial since", _without_lost, changed(f"{where}lost_groups", [1])),
    )


TIME = (
    Claim("seconds: until the last trial returned", _last_return, changed("raw.seconds", 6.0)),
    Claim(
        "group_seconds: sums over the trials, and the rest",
        _group_seconds,
        changed("raw.group_seconds.training.mean", 2.0),
    ),
    Claim("ended_by: a limit that was reached", _ended_by, changed("raw.ended_by", "converged")),
    Claim("trials cut by the end of the time only", _cut, changed("settings.DURATION", 60.0)),
    *_order_claims("raw."),
)
STOPPED_TIME = (
    Claim(
        "seconds until the last trial",
        lambda subject: all(trial.returned <= measured(subject).seconds + SKEW for trial in measured(subject).trials),
        changed("seconds", 1.0),
    ),
    *_order_claims(""),
)

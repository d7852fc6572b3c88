"""Sentences of the watchers: which rank died or is stuck, where, and how to go on."""

import os
import signal
from collections.abc import Sequence

from hpcai.watch import page
from hpcai.watch.rank import Sight

MOST_NAMED = 8  # ranks of one sentence
LAUNCHER_TOO = "; the launcher has ended as well"


def place(sight: Sight) -> str:
    """What the rank was doing."""
    now = sight.activity
    if now is None:
        return ""
    test = f"test {now.test} ({now.workload})" if now.test else ""
    parts = [test, now.phase, f"epoch {now.epoch}" if now.epoch else ""]
    found = ", ".join(filter(None, parts))
    return f" in {found}" if found else " outside of the tests"


def death(sight: Sight, status: int | None) -> str:
    """Which rank has died, how, and where. status: as wait(2) has it; None where it is not known."""
    return f"{who(sight)} {_manner(status)}{place(sight)}{_after(sight.signals)}"


def before(gone: Sequence[str]) -> str:
    """Hosts that were lost before a rank, for which the launcher may have ended it; empty if there are none."""
    more = [f"{len(gone) - MOST_NAMED} more"] if len(gone) > MOST_NAMED else []
    return f"; lost before it: {', '.join([*gone[:MOST_NAMED], *more])}" if gone else ""


def who(sight: Sight) -> str:
    """The rank, its host, and its group if it was in one."""
    return f"rank {sight.rank} on {sight.host}" + ("" if sight.group is None else f", group {sight.group},")


def _manner(status: int | None) -> str:
    if status is None:
        return "died without a message (killed, or crashed)"
    if os.WIFSIGNALED(status):
        return f"was killed by signal {os.WTERMSIG(status)}"
    return f"ended without a message, with exit code {os.WEXITSTATUS(status)}"


def _after(signals: bytes) -> str:
    return f" after {_name(signals[0])}" if signals else ""


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def launcher_ended(sight: Sight) -> str:
    """The launcher has ended before its ranks, as when its terminal is lost."""
    return f"the launcher has ended, and with it the ranks{place(sight)}{_after(sight.signals)}"


def insisted(sight: Sight, number: int) -> str:
    """A signal came twice, and the rank did not end."""
    return f"the job ends at the second {_name(number)} to rank {sight.rank} on {sight.host}{place(sight)}"


def culprits(sights: Sequence[Sight]) -> list[Sight]:
    """The ranks that hold up others: those that are stopped, else the overdue ones that are behind all they work with.

    A rank waits in its step for ranks that are behind it; while these do other work, no rank is stuck.
    """
    overdue = [sight for sight in sights if sight.overdue]
    if stopped := [sight for sight in overdue if sight.stopped]:
        return stopped
    held = {_team(sight): sight for sight in overdue}.values()
    behind = [_behind([other for other in sights if _works_with(other, sight)]) for sight in held]
    found = [sight for team in behind if all(each.overdue for each in team) for sight in team]
    return sorted(set(found), key=lambda sight: sight.rank)


def _team(sight: Sight) -> int | None:
    """The group of an overdue rank; None where all groups work together."""
    return sight.activity.group if sight.activity and sight.activity.phase != page.TOGETHER else None


def _works_with(other: Sight, sight: Sight) -> bool:
    if other.activity is None or sight.activity is None or other.activity.test != sight.activity.test:
        return False
    return _team(sight) is None or other.activity.group == sight.activity.group


def _behind(team: Sequence[Sight]) -> list[Sight]:
    positions = [sight.activity.position for sight in team if sight.activity]
    return [sight for sight in team if sight.activity and sight.activity.position == min(positions)]


def stuck(sights: Sequence[Sight]) -> str:
    """Which ranks are stopped or stuck; the first of them with its place."""
    first, *others = sights
    how = "was stopped by a signal" if first.stopped else "made no step"
    more = [f"rank {sight.rank} on {sight.host}" for sight in others[: MOST_NAMED - 1]]
    if len(others) > len(more):
        more.append(f"{len(others) - len(more)} more")
    names = f"; likewise {', '.join(more)}" if more else ""
    return f"{who(first)} {how} for {first.silent:.0f} s{place(first)}{_after(first.signals)}{names}"


def waiting(sights: Sequence[Sight], named: Sequence[Sight]) -> str:
    """The ranks that wait for those that are named; empty if there are none."""
    numbers = [sight.rank for sight in sights if sight.overdue and sight not in named]
    if not numbers:
        return ""
    more = f" and {len(numbers) - MOST_NAMED} more" if len(numbers) > MOST_NAMED else ""
    return f"waiting for it: {', '.join(f'rank {rank}' for rank in sorted(numbers)[:MOST_NAMED])}{more}"

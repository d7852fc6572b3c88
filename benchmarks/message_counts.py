"""Messages and bytes of rank 0, and of the busiest rank, by the number of ranks, which are simulated.

    python benchmarks/message_counts.py [--ranks 1000,100000] [--workers 125,12500,100000] [NAME ...]

First the reductions of results, then the coordinator of a search: both as the program calls them, each rank with a
value of its own, on communicators that count. All ranks must find the same. The exit code is 1 if what rank 0 sends
and receives grows faster than the logarithm of the ranks, except for FEW bytes and two messages of each rank where
ranks send their part to it; and if the coordinator's messages or bytes of a trial grow. `simulated_ranks.py` says how
a call is counted. 100,000 ranks need 5 GiB and half an hour.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from math import log2
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from reductions import DEGREE, REDUCTIONS, ranked
from searching_leaders import ROUNDS, searched
from simulated_ranks import SimulatedComm, Simulation

from hpcai.clock import now
from hpcai.comm.world import World

# bytes that each rank may add to what rank 0 receives, where ranks send it their parts
FEW = {
    "average precision": 16,  # a number; the detections themselves are as many as the set has
    "predictions": 512,  # a model's classes, of fewer samples the more models there are: 32 MiB in all
}
GROWS = 1.2  # beside the logarithm: numbers with more digits


class Counted(NamedTuple):
    """Messages and bytes, sent and received, of rank 0 and of the rank that has most; splits of communicators."""

    name: str
    ranks: int
    messages: int
    most_messages: int
    nbytes: int
    most_nbytes: int
    splits: int
    seconds: float


def main() -> int:
    """The exit code."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--ranks", default="1000,100000", help=f"multiples of {DEGREE}")
    options.add_argument("--workers", default="125,12500,100000", help="leaders of groups")
    options.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(REDUCTIONS)}; all by default")
    chosen = options.parse_args()
    head = f"{'ranks':>8}{'messages':>10}{'most':>8}{'bytes':>13}{'most':>13}{'splits':>8}{'seconds':>9}"
    print(f"{'':30}{head}", flush=True)
    found = [_reduced(name, numbers(chosen.ranks)) for name in chosen.names or REDUCTIONS]
    for lag in (None, 1):
        found.append(_searches(lag, numbers(chosen.workers)))
    return int(not all(found))


def numbers(text: str) -> list[int]:
    """Numbers that commas separate."""
    return [int(number) for number in text.split(",")]


def _reduced(name: str, sizes: Sequence[int]) -> bool:
    """Count a reduction on so many ranks; whether its growth is allowed."""
    first, *_, last = [_printed(counted(name, ranks)) for ranks in sizes]
    return _told(name, grows(first, last))


def _searches(lag: int | None, sizes: Sequence[int]) -> bool:
    first, *_, last = [_printed(of_trial(workers, lag)) for workers in sizes]
    return _told(first.name, grows_by_trial(first, last))


def _printed(of: Counted) -> Counted:
    name, ranks, messages, most, nbytes, most_nbytes, splits, seconds = of
    print(
        f"{name:30}{ranks:8,d}{messages:10,d}{most:8,d}{nbytes:13,d}{most_nbytes:13,d}{splits:8d}{seconds:9.1f}",
        flush=True,
    )
    return of


def _told(name: str, broken: str) -> bool:
    if broken:
        print(f"{name}: BROKEN: {broken}", flush=True)
    return not broken


def counted(name: str, ranks: int) -> Counted:
    """A reduction on so many ranks. ValueError if they do not find the same."""
    simulation, begun = Simulation(ranks, DEGREE), now()
    reduction = REDUCTIONS[name]

    def work(world: World) -> Any:
        assert isinstance(world.comm, SimulatedComm)
        rank = ranked(world)
        world.comm.begin_count()  # after what the grid has needed
        return reduction(rank)

    first, *others = simulation.run(work)
    if any(other != first for other in others):
        raise ValueError(f"{name}: ranks find different results")
    return _of(name, ranks, simulation, begun)


def of_trial(workers: int, lag: int | None) -> Counted:
    """A search of so many leaders: messages and bytes by trial, those of rank 0 of all trials / trials."""
    simulation, begun = Simulation(workers, 1), now()
    trials = ROUNDS * workers
    returned, *_ = simulation.run(partial(searched, lag=lag))
    if returned != trials:
        raise ValueError(f"{returned} of {trials} trials returned")
    simulation.messages[0] //= trials
    simulation.nbytes[0] //= trials
    simulation.messages[1:] //= ROUNDS
    simulation.nbytes[1:] //= ROUNDS
    return _of("a trial of a search" + (f", LAG {lag}" if lag else ""), workers, simulation, begun)


def _of(name: str, ranks: int, simulation: Simulation, begun: float) -> Counted:
    messages, nbytes = simulation.messages, simulation.nbytes
    of_0 = int(messages[0]), int(messages.max()), int(nbytes[0]), int(nbytes.max())
    return Counted(name, ranks, *of_0, int(simulation.splits[0]), now() - begun)


def grows(few: Counted, many: Counted) -> str:
    """Why the growth of a reduction from few ranks to many is not allowed; empty if it is."""
    ratio, more = log2(many.ranks) / log2(few.ranks), many.ranks - few.ranks
    sent = FEW.get(few.name, 0)
    for what, least, most, each in (
        ("messages of rank 0", few.messages, many.messages, 2 * bool(sent)),
        ("bytes of rank 0", few.nbytes, many.nbytes, sent),
        ("messages of a rank", few.most_messages, many.most_messages, 2 * bool(sent)),
        ("bytes of a rank", few.most_nbytes, many.most_nbytes, sent),
    ):
        if most > GROWS * ratio * least + each * more:
            return f"{what}: {least:,} on {few.ranks:,} ranks, {most:,} on {many.ranks:,}"
    return ""


def grows_by_trial(few: Counted, many: Counted) -> str:
    """Why the growth of a trial's messages and bytes is not allowed; empty if it is."""
    pairs = ("messages", few.messages, many.messages), ("bytes", few.nbytes, many.nbytes)
    wrong = (f"{what}: {least:,}, then {most:,}" for what, least, most in pairs if most > GROWS * least)
    return next(wrong, "")


if __name__ == "__main__":
    sys.exit(main())

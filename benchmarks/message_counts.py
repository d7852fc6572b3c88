"""Messages and bytes of rank 0, and of the busiest rank, by the number of ranks, which are simulated.

    python benchmarks/message_counts.py [--ranks 1000,100000] [--workers 125,12500] [NAME ...]

First the reductions of results, then the coordinator of a search: both as the program calls them, each rank with a
value of its own, on communicators that count. All ranks must find the same. The exit code is 1 if what rank 0 sends
and receives grows faster than the logarithm of the ranks, except for FEW bytes and two messages of each rank where
ranks send their part to it; and if the coordinator's messages or bytes of a trial grow. `simulated_comm.py` says how
a call is counted. 100,000 ranks need 5 GiB and a quarter of an hour.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from math import log2
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from reductions import DEGREE, REDUCTIONS, ranked
from searching_leaders import ROUNDS, searched
from simulated_ranks import SimulatedComm, Simulation

from hpcai.clock import now
from hpcai.comm.world import World

T = TypeVar("T")
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
    options.add_argument("--workers", default="125,12500", help="leaders of groups")
    options.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(REDUCTIONS)}; all by default")
    chosen = options.parse_args()
    head = f"{'ranks':>8}{'messages':>10}{'most':>8}{'bytes':>13}{'most':>13}{'splits':>8}{'seconds':>9}"
    print(f"{'':30}{head}", flush=True)
    names = chosen.names or [*REDUCTIONS]
    reduced = [alone(counted, names, ranks, _print) for ranks in numbers(chosen.ranks)]
    broken = [grows(few, many) for few, many in zip(reduced[0], reduced[-1], strict=True)]
    for lag in () if chosen.names else (None, 1):
        trials = [alone(of_trial, workers, lag) for workers in numbers(chosen.workers)]
        for each in trials:
            _print(each)
        broken.append(grows_by_trial(trials[0], trials[-1]))
    print("\n".join(f"BROKEN: {why}" for why in broken if why) or "all bounds hold")
    return int(any(broken))


def numbers(text: str) -> list[int]:
    """Numbers that commas separate."""
    return [int(number) for number in text.split(",")]


def alone(count: Callable[..., T], *arguments: Any) -> T:
    """What a function returns in a process of its own, whose gigabytes are free afterwards."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(count, *arguments).result()


def _print(of: Counted) -> None:
    name, ranks, messages, most, nbytes, most_nbytes, splits, seconds = of
    print(
        f"{name:30}{ranks:8,d}{messages:10,d}{most:8,d}{nbytes:13,d}{most_nbytes:13,d}{splits:8d}{seconds:9.1f}",
        flush=True,
    )


def counted(names: Sequence[str], ranks: int, see: Callable[[Counted], object] = id) -> list[Counted]:
    """Reductions on so many ranks, one after the other. ValueError if ranks do not find the same.

    see: is called with each at once.
    """
    simulation, found = Simulation(ranks, DEGREE), list[Counted]()

    def note(name: str, begun: float, results: Sequence[Any]) -> None:
        if any(other != results[0] for other in results):
            raise ValueError(f"{name}: ranks find different results")
        found.append(_of(name, ranks, simulation, begun))
        see(found[-1])

    def work(world: World) -> None:
        assert isinstance(world.comm, SimulatedComm)
        rank = ranked(world)
        for name in names:
            world.comm.show(None, lambda _: simulation.forget())
            begun = now()
            world.comm.show(REDUCTIONS[name](rank), partial(note, name, begun))

    simulation.run(work)
    return found


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
    # some go over one rank of each node or model, whose number is DEGREE times smaller
    ratio, more = log2(many.ranks / DEGREE) / log2(few.ranks / DEGREE), many.ranks - few.ranks
    sent = FEW.get(few.name, 0)
    for what, least, most, each in (
        ("messages of rank 0", few.messages, many.messages, 2 * bool(sent)),
        ("bytes of rank 0", few.nbytes, many.nbytes, sent),
        ("messages of a rank", few.most_messages, many.most_messages, 2 * bool(sent)),
        ("bytes of a rank", few.most_nbytes, many.most_nbytes, sent),
    ):
        if most > GROWS * ratio * least + each * more:
            return f"{few.name}: {what}: {least:,} on {few.ranks:,} ranks, {most:,} on {many.ranks:,}"
    return ""


def grows_by_trial(few: Counted, many: Counted) -> str:
    """Why the growth of a trial's messages and bytes is not allowed; empty if it is."""
    pairs = ("messages", few.messages, many.messages), ("bytes", few.nbytes, many.nbytes)
    wrong = (f"{few.name}: {what}: {least:,}, then {most:,}" for what, least, most in pairs if most > GROWS * least)
    return next(wrong, "")


if __name__ == "__main__":
    sys.exit(main())

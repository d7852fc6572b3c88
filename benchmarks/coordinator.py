"""How many requests a second the coordinator of a search answers: python benchmarks/coordinator.py

Both parts decode real messages, hand them to the real coordinator and encode its answers, on one core. The first asks
as fast as it can. The second is a search of 12,500 workers with trials of about 60 s in simulated time, in which each
request takes the time that it was measured to take, and the coordinator serves one after the other.
"""

import os
import sys
from array import array
from heapq import heapify, heapreplace
from pathlib import Path
from random import Random

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from long_search import CLAIMED, EPOCHS, MORPHISMS, lines  # noqa: E402

from hpcai.clock import now  # noqa: E402
from hpcai.machine import memory  # noqa: E402
from hpcai.machine.inventory import processor  # noqa: E402
from hpcai.search.coordinator import Coordinator, SearchRules  # noqa: E402
from hpcai.search.messages import Ask, Claim, Result, decoded_request, encoded  # noqa: E402

WORKERS = 12_500
REQUESTS = 90_000  # of the first part
SECONDS, WARM = 180.0, 90.0  # of the second, simulated; what is counted begins when the first rounds are over
TRIAL, SPREAD = 60.0, 0.5  # seconds of a trial, and the share by which it varies
ASKS_AT = 0.5  # of a trial: from then on the next one is prepared
CHOOSES = 1.0  # seconds from a history to the claim
RATE, WAIT = 10_000, 0.010  # needed


class Messages:
    """What a worker sends, in the sizes of a search that has gone on for long."""

    def __init__(self, seed: int) -> None:
        self._dice = Random(seed)
        self._round = [0] * WORKERS
        self._known = [0] * WORKERS

    def of(self, worker: int, kind: str) -> bytes:
        """The next message of a worker: an ask, a claim, a result, and so on."""
        self._round[worker] += kind == "ask"
        round_ = self._round[worker]
        if kind == "ask":
            return encoded(Ask(worker, round_, self._known[worker]))
        if kind == "claim":
            return encoded(Claim(worker, round_, tuple(f"{self._dice.getrandbits(256):064x}" for _ in range(CLAIMED))))
        return self._result(worker, round_)

    def hears(self, worker: int, answer: bytes) -> None:
        """Note how many trials the worker knows."""
        if answer.startswith(b'{"kind":"history"'):
            self._known[worker] = int(answer[len(b'{"kind":"history","until":') :].split(b",", 1)[0])

    def _result(self, worker: int, round_: int) -> bytes:
        id_, value = (round_ - 1) * WORKERS + worker + 1, self._dice.random()
        return encoded(Result(worker, id_, round_, value, True), *lines(worker, round_, id_, value))


class Served:
    """The coordinator, and what it has taken."""

    def __init__(self) -> None:
        self.messages = Messages(1)
        self.seconds = dict.fromkeys(("ask", "claim", "result"), 0.0)
        self._coordinator = Coordinator(SearchRules(WORKERS), lambda result, lines: None)

    def serve(self, worker: int, kind: str) -> float:
        """A message of a worker; the seconds that it takes."""
        message = self.messages.of(worker, kind)
        begin = now()
        request, lines = decoded_request(message)
        answers = [*self._coordinator.handle(request, 0.0, lines)]
        taken = now() - begin
        self.seconds[kind] += taken
        for index, answer in answers:
            self.messages.hears(index, answer)
        return taken


def rate() -> None:
    """Requests a second, one after the other."""
    served, each = Served(), REQUESTS // 3
    for number in range(each):
        for kind in served.seconds:
            served.serve(number % WORKERS, kind)
    rate = REQUESTS / sum(served.seconds.values())
    kinds = ", ".join(f"{kind} {1e6 * taken / each:.0f} us" for kind, taken in served.seconds.items())
    print(f"at once: {rate:,.0f} requests/s ({kinds}); needed {RATE:,}: {'reached' if rate >= RATE else 'MISSED'}")


def search() -> None:
    """A search in simulated time: events are requests that arrive, the coordinator is free again at some time."""
    served, dice, waits = Served(), Random(2), array("d")
    events = [(TRIAL * dice.random() / 10, worker, "ask") for worker in range(WORKERS)]
    returns = [TRIAL * dice.random() for _ in range(WORKERS)]
    heapify(events)
    free, busy, before = 0.0, 0.0, 0
    while (arrived := events[0][0]) < SECONDS:
        _, worker, kind = events[0]
        if not before and arrived > WARM:
            before = memory.resident()
        begin = max(arrived, free)
        free = begin + (taken := served.serve(worker, kind))
        if arrived > WARM:
            waits.append(free - arrived)
            busy += taken
        heapreplace(events, _following(worker, kind, free, returns, dice))
    grown, span = memory.resident() - before, SECONDS - WARM
    found = np.sort(np.frombuffer(waits))
    met = "reached" if found.mean() < WAIT else "MISSED"
    print(
        f"search:  {len(found) / span:,.0f} requests/s of {WORKERS:,} workers, {100 * busy / span:.1f} % busy; wait: "
        f"mean {1e3 * found.mean():.3f} ms, 99 % {1e3 * found[int(0.99 * len(found))]:.3f} ms, "
        f"longest {1e3 * found[-1]:.1f} ms; needed < {1e3 * WAIT:.0f} ms in the mean: {met}; "
        f"memory {grown / 2**20:+.1f} MiB in {len(found) // 3:,} trials"
    )


def _following(worker: int, kind: str, answered: float, returns: list[float], dice: Random) -> tuple[float, int, str]:
    """The next request of a worker: it prepares a trial while another one is trained."""
    if kind == "ask":
        return answered + CHOOSES * dice.random(), worker, "claim"
    if kind == "claim":
        return max(answered, returns[worker]), worker, "result"
    seconds = TRIAL * (1 + SPREAD * (2 * dice.random() - 1))
    returns[worker] = answered + seconds
    return answered + ASKS_AT * seconds, worker, "ask"


def main() -> None:
    """Print the machine and both parts."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(f"{processor()}, one core; {WORKERS:,} workers, chains of {MORPHISMS} morphisms, {EPOCHS} epochs a trial")
    rate()
    search()


if __name__ == "__main__":
    main()

"""Leaders on real ranks and the coordinator on rank 0, which answers between its own work."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from hpcai.search.coordinator import Coordinator, Counts, Rules

Json = dict[str, Any]
CHAIN = [{"operation": "deepen", "after": "stem_relu", "kernel": 3}] * 400  # tens of kB: MPI sends it when it is taken


class Leader:
    """One that searches on a real line, and trains nothing."""

    def __init__(self, line: Any, worker: int, serve: Callable[[], None]) -> None:
        self.line, self.worker, self.serve = line, worker, serve
        self.known, self.claims, self.learnt, self.given = 0, 0, list[Json](), list[int]()

    def told(self, kinds: tuple[str, ...]) -> Json:
        """The next answer."""
        while (answer := self.line.receive()) is None:
            self.serve()
        assert answer["kind"] in kinds, answer
        return dict(answer)

    def send(self, kind: str, *lines: bytes, **rest: Any) -> None:
        self.line.send({"kind": kind, "worker": self.worker, **rest}, *lines)

    def trial(self, round_: int) -> int | None:
        """The number of the next trial; what others found is learnt, and one proposal in two is known to all."""
        self.send("ask", round=round_, since=self.known)
        answer = self.told(("history", "end"))
        if answer["kind"] == "end":
            return None
        self.known = answer["until"]
        self.learnt += answer["entries"]
        self.claims += 1
        self.send("claim", round=round_, networks=["the same", f"{self.worker} {self.claims}"])
        grant = self.told(("granted", "end"))
        if grant["kind"] == "end":
            return None
        self.given.append(grant["id"])
        return int(grant["id"])

    def returns(self, id_: int, round_: int, value: float) -> None:
        entry = {"id": id_, "chain": CHAIN, "from": self.worker}
        lines = json.dumps(entry).encode(), json.dumps({"id": id_, "curve": CHAIN}).encode()
        self.send("result", *lines, id=id_, round=round_, value=value, parent=True)
        self.told(("noted",))


def searched(rules: Rules, does: Callable[[Leader], None], ended: Callable[[Counts], str] = lambda counts: "") -> Json:
    """What the coordinator knows and every leader was given and learnt, after all did this; on rank 0. Collective."""
    from mpi4py import MPI

    from hpcai.search.transport import Desk, Remote

    comm, recorded = MPI.COMM_WORLD.Dup(), list[Json]()
    clock = iter(range(10**9))
    line: Desk | Remote = Remote(comm)
    if comm.rank == 0:
        coordinator = Coordinator(rules, recorded.append)
        line = Desk(comm, coordinator, lambda: float(next(clock)), lambda now: ended(coordinator.counts))
    serve = line.serve if isinstance(line, Desk) else lambda: None
    leader = Leader(line, comm.rank, serve)
    does(leader)
    all_done = comm.Ibarrier()
    while not all_done.Test():
        serve()
    line.finish()
    leaders = comm.gather((leader.given, leader.learnt, leader.known))
    comm.Free()
    if not isinstance(line, Desk):
        return {}
    return {"desk": line, "recorded": recorded, "leaders": leaders, "counts": line.coordinator.counts}


def all_rounds(leader: Leader) -> None:
    round_ = 1
    while (id_ := leader.trial(round_)) is not None:
        leader.returns(id_, round_, value=1 / id_)
        round_ += 1


@pytest.mark.parallel(3)
@pytest.mark.parametrize("lag", [None, 1])
def test_leaders_search_while_rank_0_does_so_too(lag: int | None) -> None:
    from mpi4py import MPI

    size = MPI.COMM_WORLD.size
    found = searched(Rules(size, rounds=12, lag=lag), all_rounds)
    if MPI.COMM_WORLD.rank:
        return
    given = [id_ for ids, _, _ in found["leaders"] for id_ in ids]
    assert sorted(given) == [*range(1, 12 * size + 1)] == sorted(message["id"] for message in found["recorded"])
    counts = found["counts"]
    assert (counts.granted, counts.returned, counts.ended_by) == (12 * size, 12 * size, "rounds")
    assert counts.duplicates == 12 * size - 1 and counts.requests == size * (3 * 12 + 1)
    assert found["desk"].busy_seconds >= counts.requests
    for _, learnt, known in found["leaders"]:
        ids = [entry["id"] for entry in learnt]
        assert len({*ids}) == len(ids) == known
        assert all(entry["chain"] == CHAIN and entry["from"] == (entry["id"] - 1) % size for entry in learnt)
        assert lag is None or ids == [*range(1, 10 * size + 1)]
    for message in found["recorded"]:
        assert json.loads(message["lines"][1]) == {"id": message["id"], "curve": CHAIN}


@pytest.mark.parallel(3)
def test_one_gives_back_another_leaves_and_the_end_reaches_who_waits() -> None:
    """With rounds, of which the second is not complete until the last leader has left."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    last = comm.size - 1
    retired = int(last > 0)

    def does(leader: Leader) -> None:
        first = leader.trial(1)
        assert first == leader.worker + 1
        if leader.worker == last and last:
            leader.send("retire")
            return
        leader.send("forgo", id=first)
        leader.given.clear()
        assert leader.trial(1) == first
        leader.returns(first, 1, 0.5)
        second = leader.trial(2)
        assert second == comm.size + leader.worker + 1
        leader.send("ask", round=4, since=leader.known)
        assert leader.told(("end",))

    def ended(counts: Counts) -> str:
        return "duration" if counts.granted == 2 * comm.size - retired else ""

    found = searched(Rules(comm.size, lag=1), does, ended)
    if comm.rank == 0:
        counts = found["counts"]
        assert counts.ended_by == "duration" and counts.retired == retired
        assert counts.granted == 2 * comm.size - retired
        assert counts.returned == comm.size - retired == found["desk"].coordinator.running


@pytest.mark.parallel(3)
def test_rank_0_need_not_listen_for_others_to_hand_over() -> None:
    """Large results are on their way while rank 0 does something else; all are there when it looks."""
    from time import sleep

    from mpi4py import MPI

    comm, rounds = MPI.COMM_WORLD, 6

    def does(leader: Leader) -> None:
        id_ = leader.trial(1)
        assert id_
        all_granted(leader)
        if leader.worker == 0:
            sleep(0.5)
        for _ in range(rounds):
            leader.send("ask", b"x" * 100_000, round=1, since=0)
        for _ in range(rounds):
            assert leader.told(("history",))["until"] == 0

    def all_granted(leader: Leader) -> None:
        request = comm.Ibarrier()
        while not request.Test():
            leader.serve()

    found = searched(Rules(comm.size), does)
    if comm.rank == 0:
        assert found["counts"].requests == comm.size * (2 + rounds)

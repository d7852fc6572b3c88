"""Leaders on real ranks and the coordinator on rank 0, which answers between steps of its own trials."""

from collections.abc import Callable
from typing import Any

import pytest

from hpcai.networks.morphism import Deepen
from hpcai.record.trial import Hyperparameters
from hpcai.search.coordinator import Coordinator
from hpcai.search.messages import Ask, Claim, End, FinishedTrial, Forgo, Granted, History, Noted, Result, Retire, line
from hpcai.search.search_rules import Counts, SearchRules

Json = dict[str, Any]
CHAIN = (Deepen("stem_relu", 3),) * 400  # tens of kB: MPI sends it when it is received


class Leader:
    """A leader that searches with a real transport, and trains nothing."""

    def __init__(self, transport: Any, worker: int, serve: Callable[[], None]) -> None:
        self.transport, self.worker, self.serve = transport, worker, serve
        self.known, self.claims, self.learnt, self.given = 0, 0, list[FinishedTrial](), list[int]()

    def answer(self, *kinds: type) -> Any:
        """The next answer, of one of these kinds."""
        while (answer := self.transport.receive()) is None:
            self.serve()
        assert isinstance(answer, kinds), answer
        return answer

    def trial(self, round_: int) -> int | None:
        """The number of the next trial; trials of others are learnt, and one proposal in two is known to all."""
        self.transport.send(Ask(self.worker, round_, self.known))
        answer = self.answer(History, End)
        if isinstance(answer, End):
            return None
        self.known = answer.until
        self.learnt += answer.entries
        self.claims += 1
        self.transport.send(Claim(self.worker, round_, ("the same", f"{self.worker} {self.claims}")))
        grant = self.answer(Granted, End)
        if isinstance(grant, End):
            return None
        self.given.append(grant.id)
        return int(grant.id)

    def returns(self, id_: int, round_: int, value: float) -> None:
        chosen = Hyperparameters(batch=self.worker + 1, kernel=3)
        finished = FinishedTrial(id_, round_, value, value, True, CHAIN, chosen)
        self.transport.send(Result(self.worker, id_, round_, value, True), line(finished), b"line %d" % id_)
        self.answer(Noted)


def searched(
    rules: SearchRules, does: Callable[[Leader], None], ended: Callable[[Counts], str] = lambda counts: ""
) -> Json:
    """The coordinator's state and the answers to every leader, after all have acted; on rank 0. Collective."""
    from mpi4py import MPI

    from hpcai.search.transport import CoordinatorTransport, LeaderTransport

    comm, recorded = MPI.COMM_WORLD.Dup(), list[tuple[Result, bytes]]()
    clock = iter(range(10**9))
    transport: CoordinatorTransport | LeaderTransport = LeaderTransport(comm)
    if comm.rank == 0:
        coordinator = Coordinator(rules, lambda result, lines: recorded.append((result, lines[1])))
        counts = coordinator.counts
        transport = CoordinatorTransport(comm, coordinator, lambda: float(next(clock)), lambda now: ended(counts))
    serve = transport.serve if isinstance(transport, CoordinatorTransport) else lambda: None
    leader = Leader(transport, comm.rank, serve)
    does(leader)
    all_done = comm.Ibarrier()
    while not all_done.Test():
        serve()
    transport.finish()
    leaders = comm.gather((leader.given, leader.learnt, leader.known))
    comm.Free()
    if not isinstance(transport, CoordinatorTransport):
        return {}
    return {"served": transport, "recorded": recorded, "leaders": leaders, "counts": transport.coordinator.counts}


def all_rounds(leader: Leader) -> None:
    round_ = 1
    while (id_ := leader.trial(round_)) is not None:
        leader.returns(id_, round_, value=1 / id_)
        round_ += 1


@pytest.mark.parallel(3)
@pytest.mark.parametrize("lag", [None, 1])
def test_leaders_search_while_rank_0_searches_too(lag: int | None) -> None:
    from mpi4py import MPI

    size = MPI.COMM_WORLD.size
    found = searched(SearchRules(size, rounds=12, lag=lag), all_rounds)
    if MPI.COMM_WORLD.rank:
        return
    given = [id_ for ids, _, _ in found["leaders"] for id_ in ids]
    assert sorted(given) == [*range(1, 12 * size + 1)] == sorted(result.id for result, _ in found["recorded"])
    counts = found["counts"]
    assert (counts.granted, counts.returned, counts.ended_by) == (12 * size, 12 * size, "rounds")
    assert counts.duplicates == 12 * size - 1 and counts.requests == size * (3 * 12 + 1)
    assert found["served"].busy_seconds >= counts.requests
    for _, learnt, known in found["leaders"]:
        ids = [trial.id for trial in learnt]
        assert len({*ids}) == len(ids) == known
        assert all(trial.chain == CHAIN for trial in learnt)
        assert all(trial.hyperparameters.batch == (trial.id - 1) % size + 1 for trial in learnt)
        assert lag is None or ids == [*range(1, 10 * size + 1)]
    for result, text in found["recorded"]:
        assert text == b"line %d" % result.id


@pytest.mark.parallel(3)
def test_a_returned_trial_a_leaving_leader_and_the_end_reach_waiting_leaders() -> None:
    """With rounds, of which the second is not complete until the last leader has left."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    last = comm.size - 1
    retired = int(last > 0)

    def does(leader: Leader) -> None:
        first = leader.trial(1)
        assert first == leader.worker + 1
        if leader.worker == last and last:
            leader.transport.send(Retire(leader.worker))
            return
        leader.transport.send(Forgo(leader.worker, first))
        leader.given.clear()
        assert leader.trial(1) == first
        leader.returns(first, 1, 0.5)
        second = leader.trial(2)
        assert second == comm.size + leader.worker + 1
        leader.transport.send(Ask(leader.worker, 4, leader.known))
        assert leader.answer(End)

    def ended(counts: Counts) -> str:
        return "duration" if counts.granted == 2 * comm.size - retired else ""

    found = searched(SearchRules(comm.size, lag=1), does, ended)
    if comm.rank == 0:
        counts = found["counts"]
        assert counts.ended_by == "duration" and counts.retired == retired
        assert counts.granted == 2 * comm.size - retired
        assert counts.returned == comm.size - retired == found["served"].coordinator.running


@pytest.mark.parallel(3)
def test_others_can_send_results_while_rank_0_does_not_receive() -> None:
    """Large results are being sent while rank 0 is busy; all have arrived when it receives."""
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
            leader.transport.send(Ask(leader.worker, 1, 0), b"x" * 100_000)
        for _ in range(rounds):
            assert leader.answer(History).until == 0

    def all_granted(leader: Leader) -> None:
        request = comm.Ibarrier()
        while not request.Test():
            leader.serve()

    found = searched(SearchRules(comm.size), does)
    if comm.rank == 0:
        assert found["counts"].requests == comm.size * (2 + rounds)

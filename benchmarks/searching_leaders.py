"""A search of simulated leaders, with the program's coordinator, transports and messages; nothing is trained."""

from collections.abc import Generator

from long_search import CLAIMED, lines
from simulated_ranks import SimulatedComm

from hpcai.comm.world import World
from hpcai.search.coordinator import Coordinator
from hpcai.search.messages import Answer, Ask, Claim, Granted, History, Noted, Result, Taken
from hpcai.search.search_rules import SearchRules
from hpcai.search.transport import CoordinatorTransport, LeaderTransport, Transport

ROUNDS = 3  # trials of each leader


def searched(world: World, lag: int | None = None) -> int:
    """A leader's part in a search, on rank 0 beside the coordinator; trials that returned. lag: KEY LAG."""
    comm = world.comm
    assert isinstance(comm, SimulatedComm)
    if comm.rank:
        own = LeaderTransport(comm)
        for _ in _leader(comm.rank, own):
            comm.sleep()
        return 0
    coordinator = Coordinator(SearchRules(comm.size, rounds=ROUNDS, lag=lag), lambda result, lines: None)
    transport = CoordinatorTransport(comm, coordinator, lambda: 0.0, lambda seconds: "")
    for _ in _leader(0, transport):
        comm.sleep()
    while coordinator.counts.returned < ROUNDS * comm.size:
        comm.sleep()
        transport.serve()
    return coordinator.counts.returned


def _leader(worker: int, transport: Transport) -> Generator[None, None, None]:
    """What a leader says, trial after trial; it yields while it waits for an answer."""
    known = 0
    for round_ in range(1, ROUNDS + 1):
        transport.send(Ask(worker, round_, known))
        history = yield from _answer(transport)
        assert isinstance(history, History), history
        known = history.until
        granted: Answer = Taken()
        while isinstance(granted, Taken):
            transport.send(Claim(worker, round_, tuple(f"{worker:032x}{round_:016x}{n:016x}" for n in range(CLAIMED))))
            granted = yield from _answer(transport)
        assert isinstance(granted, Granted), granted
        value = worker * 7919 % 1009 / 1009
        message = Result(worker, granted.id, round_, value, True)
        transport.send(message, *lines(worker, round_, granted.id, value), b"{}")
        noted = yield from _answer(transport)
        assert isinstance(noted, Noted), noted


def _answer(transport: Transport) -> Generator[None, None, Answer]:
    while (answer := transport.receive()) is None:
        yield
    return answer

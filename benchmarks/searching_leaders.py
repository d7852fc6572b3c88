"""A search of simulated leaders, with the program's coordinator, transports and messages; nothing is trained."""

from collections.abc import Generator

from simulated_ranks import SimulatedComm

from hpcai.comm.world import World
from hpcai.networks.morphism import Deepen, Morphism, Skip, Widen
from hpcai.record.trial import CurveEntry, Hyperparameters, Trial
from hpcai.search.coordinator import Coordinator
from hpcai.search.messages import Answer, Ask, Claim, FinishedTrial, Granted, History, Noted, Result, Taken, line
from hpcai.search.search_rules import SearchRules
from hpcai.search.transport import CoordinatorTransport, LeaderTransport, Transport

ROUNDS = 3  # trials of each leader
MORPHISMS, EPOCHS, CLAIMED = 20, 60, 8  # of a search that has gone on for long
CHOSEN = Hyperparameters(batch=448, kernel=3)
KINDS: tuple[Morphism, ...] = (
    Deepen("stage3_block4_relu2", 3),
    Widen("stage3_block4_conv1", 384),
    Skip("stage2_block1_relu3", "stage4_block3_norm3"),
)
CHAIN = tuple(KINDS[place % 3] for place in range(MORPHISMS))
ENTRY = CurveEntry(
    epoch=60,
    seconds=1234.56789012345,
    loss=0.123456789012345,
    validation_loss=0.123456789012345,
    samples=1_281_167,
    skipped=0,
    correct=47_123,
    counted=50_000,
    fingerprint=2**62,
)


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
        finished = FinishedTrial(granted.id, round_, value, value, True, CHAIN, CHOSEN)
        message = Result(worker, granted.id, round_, value, True)
        transport.send(message, line(finished), line(_trial(worker, round_, granted.id)), b"{}")
        noted = yield from _answer(transport)
        assert isinstance(noted, Noted), noted


def _answer(transport: Transport) -> Generator[None, None, Answer]:
    while (answer := transport.receive()) is None:
        yield
    return answer


def _trial(worker: int, round_: int, id_: int) -> Trial:
    times = ("given", "started", "returned", "training_seconds", "validation_seconds", "warmup_seconds")
    return Trial(
        id=id_,
        worker=worker,
        round=round_,
        parent=123_456,
        operation="deepen",
        morphisms=CHAIN[-3:],
        hyperparameters=CHOSEN,
        planned_epochs=EPOCHS,
        steps=42_900,
        executed_operations=10**18,
        curve=(ENTRY,) * EPOCHS,
        deviation=1e-15,
        nbytes=2**35,
        planned_bytes=2**35,
        end="planned",
        **dict.fromkeys(times, 1234.56789012345),
    )

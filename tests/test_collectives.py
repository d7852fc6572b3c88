"""Collectives of gloo and MPI on real ranks: right without faults, and every planted fault is detected."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
import torch

from hpcai.formulas.collectives import COLLECTIVES, CollectiveName

if TYPE_CHECKING:
    from hpcai.comm.collective_timing import CollectiveTimer, TimedCollective
    from hpcai.comm.collectives import Backend

Call = Callable[[], Any]
Spoil = Callable[[Call, torch.Tensor, torch.Tensor, bool], Call]  # `here`: on the one faulty rank

CPU = torch.device("cpu")
COUNTS = (2, 501)
BLOCKS = 35 * 65521 + 11  # elements, more than are compared at a time


def _before(change: Callable[[torch.Tensor], Any]) -> Spoil:
    def spoil(call: Call, send: torch.Tensor, receive: torch.Tensor, here: bool) -> Call:
        return lambda: (change(send) if here else None, call())

    return spoil


def _after(change: Callable[[torch.Tensor], Any]) -> Spoil:
    def spoil(call: Call, send: torch.Tensor, receive: torch.Tensor, here: bool) -> Call:
        return lambda: (call(), change(receive) if here else None)

    return spoil


def _exchange(receive: torch.Tensor) -> None:
    receive[[0, -1]] = receive[[-1, 0]]


def _nothing(call: Call, send: torch.Tensor, receive: torch.Tensor, here: bool) -> Call:
    return lambda: None


FAULTS: dict[str, Spoil] = {
    "a contribution is dropped": _before(torch.Tensor.zero_),
    "a contribution is added twice": _before(lambda send: send.mul_(2)),
    "a contribution is displaced": _before(lambda send: send.copy_(send.roll(1))),
    "two elements are exchanged": _after(_exchange),
    "all elements are displaced": _after(lambda receive: receive.copy_(receive.roll(-1))),
    "the edge is unwritten": _after(lambda receive: receive[-1].fill_(-1)),
    "one element is a little wrong": _after(lambda receive: receive[1].add_(1)),
    "one element is no number": _after(lambda receive: receive[0].fill_(float("nan"))),
    "nothing is done": _nothing,
}


def benches(ranks: int, largest: int = max(COUNTS)) -> "list[CollectiveTimer]":
    """Both backends over all ranks; the torch world must have been made."""
    from mpi4py import MPI

    from hpcai.comm.collective_timing import CollectiveMemory, CollectiveTimer
    from hpcai.comm.collectives import Mpi, Torch
    from hpcai.comm.group_links import GroupLinks
    from hpcai.comm.scopes import Scope

    world = MPI.COMM_WORLD
    scope, links = Scope("world", ranks, world, world), GroupLinks(world, CPU)
    room = CollectiveMemory(scope, 4 * largest * ranks, CPU)
    backends: list[Backend] = [Torch("gloo", CPU, links), Mpi(world, links)]
    return [CollectiveTimer(backend, scope, room) for backend in backends]


def rows_of(
    bench: "CollectiveTimer", collective: CollectiveName, counts: tuple[int, ...] = COUNTS
) -> "list[TimedCollective]":
    return [bench.row(collective, count) for count in counts]


def rows_under(
    bench: "CollectiveTimer", collective: CollectiveName, fault: Spoil, at: int, counts: tuple[int, ...] = COUNTS
) -> "list[TimedCollective]":
    """The rows while rank `at` is faulty."""
    from mpi4py import MPI

    kind, here = type(bench._backend), MPI.COMM_WORLD.rank == at
    genuine = getattr(kind, collective)

    def faulty(self: Any, send: torch.Tensor, receive: torch.Tensor) -> Call:
        return fault(genuine(self, send, receive), send, receive, here)

    with patch.object(kind, collective, faulty):
        return rows_of(bench, collective, counts)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    from hpcai.comm import collective_timing

    monkeypatch.setattr(collective_timing, "SECONDS", 0.0)
    monkeypatch.setattr(collective_timing, "TRIED", 0.0)
    monkeypatch.setattr(collective_timing, "SLOW", 0.0)  # the warm-up, then two calls


@pytest.mark.parallel(3)
def test_every_fault_is_detected_in_every_collective_of_both_backends() -> None:
    from mpi4py import MPI

    from hpcai.comm.rendezvous import torch_world

    world = MPI.COMM_WORLD
    if world.size == 1:
        return
    with torch_world(world, "gloo", "here", CPU):
        for bench in benches(world.size):
            for collective in COLLECTIVES:
                at = 0 if collective == "broadcast" else world.size - 1  # a rank whose sent data count
                assert [row.wrong for row in rows_of(bench, collective)] == [0, 0]
                for name, fault in FAULTS.items():
                    found = rows_under(bench, collective, fault, at)
                    assert all(row.wrong > 0 for row in found), (name, collective, found)
                assert [row.wrong for row in rows_of(bench, collective)] == [0, 0]
        _check_another_root(*benches(world.size), world)


def _check_another_root(of_torch: "CollectiveTimer", of_mpi: "CollectiveTimer", world: Any) -> None:
    from torch import distributed

    from hpcai.comm.collectives import Mpi, Torch

    with patch.object(Torch, "broadcast", lambda self, send, receive: lambda: distributed.broadcast(receive, 1)):
        assert all(row.wrong > 0 for row in rows_of(of_torch, "broadcast"))
    with patch.object(Mpi, "broadcast", lambda self, send, receive: lambda: world.Bcast(receive.numpy(), 1)):
        assert all(row.wrong > 0 for row in rows_of(of_mpi, "broadcast"))


@pytest.mark.parallel(2)
def test_each_call_and_block_is_checked_and_missing_collectives_are_reported() -> None:
    from mpi4py import MPI

    from hpcai.comm.rendezvous import torch_world

    world = MPI.COMM_WORLD
    if world.size == 1:
        return
    with torch_world(world, "gloo", "here", CPU):
        for bench in benches(world.size, BLOCKS):
            _check_each_call(bench)
            _check_many_blocks(bench)
        _check_lacking(benches(world.size)[0])


def _check_each_call(bench: "CollectiveTimer") -> None:
    """One element that is wrong in the warm-up, or in one of the two timed calls."""
    for collective in ("all_reduce", "all_gather"):
        for bad in (1, 2, 3):
            calls: list[int] = []
            wrong = functools.partial(_spoil_one, calls, bad)
            (row,) = rows_under(bench, collective, wrong, 0, (501,))
            assert (row.wrong, row.iterations, len(calls)) == (1, 2, 3)


def _spoil_one(calls: list[int], bad: int, call: Call, send: torch.Tensor, receive: torch.Tensor, here: bool) -> Call:
    return lambda: (call(), calls.append(0), receive[0].add_(here and len(calls) == bad))


def _check_many_blocks(bench: "CollectiveTimer") -> None:
    for collective in COLLECTIVES:
        (row,) = rows_of(bench, collective, (BLOCKS,))
        assert row.wrong == 0
        assert row.seconds > 0 and row.iterations == 2


def _check_lacking(bench: "CollectiveTimer") -> None:
    from hpcai.comm.collectives import Torch

    assert [bench.lacks(collective) for collective in COLLECTIVES] == [""] * len(COLLECTIVES)
    words = "Backend gloo does not support all_gather\nand more"
    with patch.object(Torch, "all_gather", _failing(RuntimeError(words))):
        assert bench.lacks("all_gather") == "Backend gloo does not support all_gather"
    with patch.object(Torch, "all_gather", _failing(NotImplementedError())):
        assert bench.lacks("all_gather") == "NotImplementedError"
    closed = patch.object(Torch, "all_gather", _failing(RuntimeError("Connection closed by peer")))
    with closed, pytest.raises(RuntimeError, match="closed"):
        bench.lacks("all_gather")


def _failing(error: Exception) -> Callable[..., Call]:
    def call() -> None:
        raise error

    return lambda self, send, receive: call

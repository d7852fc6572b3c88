"""Simulated ranks: as real ones, with counted messages; what rank 0 sends and receives does not grow with the ranks."""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from launch import ROOT

FEW, MANY = 1000, 100_000


def part(name: str) -> ModuleType:
    """A module of the benchmark."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        return import_module(name)
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


def calls(comm: Any) -> list[Any]:
    """The results of each collective call on a rank."""
    from mpi4py import MPI

    own = np.array([comm.rank, -comm.rank, comm.rank % 2])
    found: list[Any] = [comm.allreduce(comm.rank), comm.allreduce((comm.rank % 2, f"rank {comm.rank}"), MPI.MAX)]
    found += [comm.reduce(2**70 + comm.rank), comm.bcast(f"rank {comm.rank}", comm.size - 1)]
    found += [comm.gather(f"rank {comm.rank}"), comm.gather(comm.rank, comm.size - 1), comm.allgather({comm.rank})]
    for operator in (MPI.SUM, MPI.MIN, MPI.MAX):
        total = own.copy()
        comm.Allreduce(MPI.IN_PLACE, total, operator)
        found.append(total.tolist())
    some, every = own > 0, own > 0
    comm.Allreduce(MPI.IN_PLACE, some, MPI.LOR)
    comm.Allreduce(MPI.IN_PLACE, every, MPI.LAND)
    at_root = np.zeros_like(own) if comm.rank == 0 else None
    comm.Reduce(own, at_root)
    lines = np.zeros((comm.size, 3), own.dtype)
    comm.Allgather(own, lines)
    half = comm.Split(comm.rank % 2 if comm.rank else MPI.UNDEFINED, -comm.rank)
    found += [some.tolist(), every.tolist(), None if at_root is None else at_root.tolist(), lines.tolist()]
    found += [(half.rank, half.size, half.allreduce(comm.rank)) if half != MPI.COMM_NULL else None]
    comm.Ibarrier().Wait()
    return found


@pytest.mark.parallel(4)
def test_simulated_ranks_find_what_real_ones_find() -> None:
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    simulated = part("simulated_ranks").Simulation(world.size, 1).run(lambda rank: calls(rank.comm))
    assert calls(world) == simulated[world.rank]


def test_messages_of_trees() -> None:
    """Of 6 ranks the first has 3 children in a binomial tree, the third and the fifth one each."""
    ranks, comm = part("simulated_ranks"), part("simulated_comm")
    assert comm.tree(6).tolist() == [3, 1, 2, 1, 2, 1] and comm.tree(1).tolist() == [0]
    simulation = ranks.Simulation(6, 1)
    simulation.run(lambda rank: rank.comm.Barrier())
    assert simulation.messages.tolist() == [6, 2, 4, 2, 4, 2] and not simulation.nbytes.any()
    simulation = ranks.Simulation(6, 1)
    simulation.run(lambda rank: rank.comm.gather(rank.rank))
    assert simulation.messages.tolist() == [5, 1, 1, 1, 1, 1]
    assert simulation.nbytes.tolist() == [5 * comm.pickled(1), *[comm.pickled(1)] * 5]


@pytest.mark.parametrize("fault", ["another call", "one call less"])
def test_ranks_that_do_not_make_the_same_calls_are_found(fault: str) -> None:
    ranks = part("simulated_ranks")

    def work(world: Any) -> None:
        world.comm.allreduce(1)
        if world.rank != 2:
            world.comm.Barrier()
        elif fault == "another call":
            world.comm.bcast(1)

    with pytest.raises(ranks.Differs):
        ranks.Simulation(4, 2).run(work)


@pytest.mark.parametrize("planted", ["gather", "allgather", "list"])
def test_a_growing_reduction_is_found(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = part("message_counts")
    gathering = {
        "gather": lambda rank: rank.world.comm.gather(rank.value) and None,
        "allgather": lambda rank: rank.world.comm.allgather(rank.value),
        "list": lambda rank: rank.world.comm.allreduce([rank.value]),
    }
    monkeypatch.setitem(counts.REDUCTIONS, "models", gathering[planted])
    (few,), (many,) = (counts.counted(["models"], ranks) for ranks in (80, 160))
    assert counts.grows(few, many)


def test_ranks_with_different_results_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = part("message_counts")
    monkeypatch.setitem(counts.REDUCTIONS, "models", lambda rank: rank.world.rank == 7)
    with pytest.raises(ValueError, match="different results"):
        counts.counted(["models"], 16)


def test_a_trial_is_asked_for_claimed_and_returned_once() -> None:
    """Each with its answer: six messages of a leader, of which those of rank 0's own leader need none."""
    counts = part("message_counts")
    found = counts.of_trial(8, None)
    assert (found.messages, found.most_messages) == (6 * 7 // 8, 6)
    assert counts.grows_by_trial(found, found._replace(nbytes=2 * found.nbytes))
    assert not counts.grows_by_trial(found, found._replace(ranks=8000))


@pytest.mark.exhaustive
@pytest.mark.parametrize("lag", [None, 1])
def test_a_trial_costs_the_coordinator_as_much_with_12500_leaders(lag: int | None) -> None:
    counts = part("message_counts")
    few, many = (counts.of_trial(workers // 8, lag) for workers in (FEW, MANY))
    assert not counts.grows_by_trial(few, many)


@pytest.mark.exhaustive
def test_no_reduction_of_results_grows_with_the_ranks() -> None:
    counts = part("message_counts")
    few, many = (counts.counted([*counts.REDUCTIONS], ranks) for ranks in (FEW, MANY))
    assert not any(map(counts.grows, few, many))

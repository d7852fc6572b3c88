"""Every all-reduce with every wire type over every backend: sums, bits, bytes; and trainings by each of them.

Nodes are made of consecutive ranks; real nodes differ only in the network between them.
"""

from collections.abc import Iterator
from socket import gethostname
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from assumed_nodes import grouped

from hpcai.gradients.reductions import AUTO, REDUCTIONS, algorithms
from hpcai.gradients.wires import WIRES

if TYPE_CHECKING:
    from hpcai.comm.grid import Group
    from hpcai.train.communication import Communication

SINGLE = 2.0**-24
COUNT = 1003  # elements, which no number of ranks divides
BY = ("gloo", "mpi")


def paths(group: "Group") -> Iterator[tuple[str, str, str, "Communication"]]:
    """Every algorithm that suits the group's nodes, wire type and backend."""
    from tiny import CPU, communication

    from hpcai.comm.group_links import links_of

    layout = links_of(group, CPU).layout
    for reduction in algorithms(AUTO):
        if not REDUCTIONS[reduction]().refusal(lambda: layout):
            for wire in ("fp32", "fp16", "bf16", "int8"):
                for by in BY:
                    yield reduction, wire, by, communication(group, reduction, wire, by)


def allowed(parts: np.ndarray, wire: str) -> Any:
    """Bound of the error of a sum over the rows, element by element.

    fp32: one rounding for each addition. 16 bits: each number and the sum are rounded once. int8: rounding to at most
    1/127 of the largest magnitude leaves half of that for each number, and again for the sum.
    """
    ranks, magnitude = len(parts), np.abs(parts).sum(0)
    kind = WIRES[wire]()
    error = ranks * SINGLE * magnitude + 2.01 * kind.roundoff * magnitude + ranks * kind.underflow
    largest = np.abs(parts).max(1).sum()
    return error + (ranks * np.abs(parts).max() + largest) / 127 * (kind.carries)


@pytest.mark.slow
@pytest.mark.parallel(4)
def test_sums_equal_those_in_float64_and_have_the_same_bits_on_all_ranks() -> None:
    check_sums(2)


@pytest.mark.exhaustive
@pytest.mark.parallel(3)
def test_sums_of_a_prime_number_of_ranks_each_on_its_own_node() -> None:
    check_sums(1)


@pytest.mark.exhaustive
@pytest.mark.parallel(6)
def test_sums_of_two_nodes_of_three_ranks() -> None:
    check_sums(3)


@pytest.mark.parallel(2)
def test_sums_of_two_ranks_of_one_node() -> None:
    check_sums(2)


def check_sums(ranks_per_node: int) -> None:
    from tiny import CPU

    from hpcai.train.data_parallel import wrong_sums

    with grouped(ranks_per_node) as group:
        if group.degree == 1:
            return
        random = np.random.default_rng(1)
        parts = random.standard_normal((group.degree, COUNT)).astype(np.float32) * 10.0 ** random.integers(-6, 2, COUNT)
        parts = parts.astype(np.float32)
        exact = parts.astype(np.float64).sum(0)
        for *path, summed in paths(group):
            vector = torch.from_numpy(parts[group.coordinates.member].copy())
            total = summed.sum(vector).numpy()
            assert len({*group.model.allgather(total.tobytes())}) == 1, path
            assert (np.abs(total - exact) <= allowed(parts.astype(np.float64), path[1])).all(), path
            counts = [1, group.degree - 1, 5003]
            assert [group.model.allreduce(wrong_sums(group, CPU, summed, count)) for count in counts] == [0] * 3, path


@pytest.mark.parallel(4)
def test_bytes_are_counted_and_compressed() -> None:
    with grouped() as group:
        if group.degree < 4 or group.degree % 2:
            return
        for reduction, wire, by, summed in paths(group):
            before = summed.measured()
            summed.sum(torch.ones(9600))
            after = summed.measured()
            assert summed.group_links is not None
            sizes = summed.group_links.layout.sizes(summed.link_names)
            needed = REDUCTIONS[reduction]().bytes_sent(9600, sizes, WIRES[wire].nbytes)
            for link, nbytes in needed.items():
                sent = after[link] - before.get(link, 0.0)
                assert nbytes <= sent + 1e-6 <= nbytes + 40 * group.degree, (reduction, wire, by, link)
            packs = wire != "fp32" and sizes[summed.link_names[-1]] > 1
            assert (after["packing"] > before["packing"]) == packs


@pytest.mark.parallel(4)
def test_auto_takes_the_cheapest_path_which_all_groups_agree_on() -> None:
    from mpi4py import MPI
    from tiny import CPU, communication

    from hpcai.comm.grid import split
    from hpcai.comm.rendezvous import process_group
    from hpcai.inputfile import Case
    from hpcai.record.all_reduce import TimedPath
    from hpcai.train import all_reduce_choice

    world = MPI.COMM_WORLD
    if world.size % 2:
        return
    group = split(world, world.size // 2, 2, "row")
    assert group is not None
    case = Case(1, "ensemble", {"ALLREDUCE": "auto", "WIRE": "bf16"})
    with process_group(group, gethostname(), CPU), pytest.MonkeyPatch.context() as patch:
        averaging = communication(group, "auto", "bf16")
        cheap = {"torus by gloo": (0.1, 0.01), "torus by mpi": (0.06, 0.06), "flat by mpi": (0.05, 1.0)}

        def timed(_: Any, path: Any, *__: Any) -> TimedPath:
            seconds, processor = cheap.get(str(path), (1.0, 0.0))
            return TimedPath(algorithm=path.reduction, by=path.by, seconds=seconds, processor=processor)

        patch.setattr(all_reduce_choice, "_timed", timed)
        all_reduce_choice.choose(case, averaging, 100, CPU, world)
        assert str(averaging.path) == "torus by gloo" == str(communication(group, "auto", "bf16").path)
    group.free()


@pytest.mark.parallel(2)
def test_a_backward_pass_ends_after_the_backend_is_done_with_its_all_reduces() -> None:
    """What the backend does after an all-reduce's value has arrived would damage the records of torch's profiler."""
    from time import sleep

    from tiny import CPU, communication

    with grouped() as group:
        if group.degree == 1:
            return
        averaging = communication(group)
        link = averaging._whole_group
        future = link.start_all_reduce(torch.ones(8, device=CPU))
        future.then(lambda _: sleep(0.3))  # in the backend's thread, before it is done
        future.wait()
        (started,) = link._started
        assert not started.is_completed()
        averaging.end_backward()
        assert started.is_completed() and not link._started

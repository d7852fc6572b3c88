"""Reductions and wire types: their properties, and added ones that train, are planned, and are detected when wrong."""

from socket import gethostname
from typing import TYPE_CHECKING, Any

import pytest
import torch
from launch import ROOT

from hpcai.estimate import Facts, memory
from hpcai.gradients.reductions import REDUCTIONS
from hpcai.gradients.reductions.flat import Flat
from hpcai.gradients.reductions.reduction import Future, Link, Reduction, Vector
from hpcai.gradients.wires import WIRES
from hpcai.gradients.wires.fp32 import Fp32
from hpcai.inputfile import Case, parse, shipped_text
from hpcai.inputfile.keys import keys_by_name
from hpcai.networks import build
from hpcai.results.row import tv

if TYPE_CHECKING:
    from hpcai.train.loop import Training

BUFFER = 1000


@REDUCTIONS.register("halves")
class Halves(Reduction):
    """Sums both halves of a vector, one after the other."""

    digit = 9

    def sum(self, vector: Vector, link: Link) -> Future:
        middle = len(vector) // 2
        first = link.all_reduce(vector[:middle])
        return link.all_reduce(vector[middle:]).then(lambda done: (first.wait(), [vector])[1])

    def bytes_sent(self, nbytes: float, ranks: int) -> float:
        return nbytes * ranks

    def buffer_bytes(self, nbytes: int, ranks: int) -> int:
        return BUFFER


@WIRES.register("half")
class Half(Fp32):
    """16 bits on the wire."""

    nbytes = 2
    exact = 2**8

    def encoded(self, gradients: Vector) -> Vector:
        return gradients.bfloat16()

    def buffer_bytes(self, elements: int) -> int:
        return self.nbytes * elements


@pytest.mark.parametrize(("key", "contract"), [("ALLREDUCE", "reduction"), ("WIRE", "wire")])
def test_each_choice_is_a_module_of_its_name(key: str, contract: str) -> None:
    folder = ROOT / "hpcai" / "gradients" / f"{contract}s"
    assert {path.stem for path in folder.glob("*.py")} - {"__init__", contract} == set(keys_by_name()[key].choices)
    choices: Any = {"ALLREDUCE": REDUCTIONS, "WIRE": WIRES}[key]
    assert all(choices[name] for name in keys_by_name()[key].choices)


def test_flat_sends_the_minimum_of_an_all_reduce() -> None:
    assert [Flat().bytes_sent(1200, ranks) for ranks in (1, 2, 4)] == [0, 1200, 1800]
    assert Flat().buffer_bytes(1200, 4) == 0


def test_an_added_choice_is_in_the_row_and_in_the_plan() -> None:
    settings = dict(next(case for case in parse(shipped_text()).cases(2) if case.workload == "ensemble").settings)
    settings |= {"GROUPS": 1, "DEGREE": 2}
    new = settings | {"ALLREDUCE": "halves", "WIRE": "half"}
    old, made = (Case(1, "ensemble", each) for each in (settings, new))
    assert (tv(old)[3], tv(old)[7], tv(made)[3], tv(made)[7]) == ("1", "4", "9", "2")
    graph = build("resnet8", (8, 8), 1, 2)
    plain, more = (memory(graph, each, Facts(0, 10, 64))["buckets"] for each in (settings, new))
    assert more - plain == BUFFER + 2 * sum(graph.parameters.values())


def trained(reduction: str, fault: bool = False) -> "tuple[Training, int]":
    """A training of all ranks as one group, by a reduction; and the wrong sums that are detected before it."""
    from mpi4py import MPI
    from tiny import CPU, training, unending

    from hpcai.clock import Phases
    from hpcai.comm.grid import split
    from hpcai.comm.rendezvous import process_group
    from hpcai.train.data_parallel import wrong_sums

    group = split(MPI.COMM_WORLD, 1, MPI.COMM_WORLD.size, "row")
    assert group is not None
    with process_group(group, gethostname(), CPU), pytest.MonkeyPatch.context() as patch:
        if fault:
            genuine = Halves.sum
            lost = group.coordinates.member == group.degree - 1

            def without_a_rank(self: Halves, vector: Vector, link: Link) -> Future:
                vector[len(vector) // 2 :].mul_(not lost)
                return genuine(self, vector, link)

            patch.setattr(Halves, "sum", without_a_rank)
        made = training(group, samples=40 * group.degree, reduction=reduction)
        wrong = wrong_sums(group, CPU, made.execution.communication, 600)
        made.run(Phases(CPU), unending())
    return made, wrong


@pytest.mark.parallel(2)
def test_an_added_reduction_trains_the_same_weights() -> None:
    (flat, _), (halves, wrong) = trained("flat"), trained("halves")
    assert wrong == 0
    if flat.group.degree <= 2:  # a sum of two has only one order
        pairs = zip(flat.state.module.parameters(), halves.state.module.parameters(), strict=True)
        assert all(torch.equal(one, other) for one, other in pairs)


@pytest.mark.parallel(2)
def test_a_wrong_reduction_is_detected_before_the_clock_and_by_replayed_steps() -> None:
    from hpcai.record.check_declarations import TERM_LOST

    made, wrong = trained("halves", fault=True)
    found = made.replay.findings
    if made.group.degree > 1:
        assert wrong == 300
        assert found.deviation[0] > 3 and found.lost[0] > 3 * TERM_LOST

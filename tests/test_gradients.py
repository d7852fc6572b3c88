"""Reductions and wire types: their properties, and added ones that train, are planned, and are detected when wrong."""

from socket import gethostname
from typing import TYPE_CHECKING, Any

import pytest
import torch
from launch import ROOT

from hpcai.estimate import Facts, memory
from hpcai.estimate.memory import THREAD
from hpcai.gradients.layout import Layout, LinkName, torus_size
from hpcai.gradients.reductions import AUTO, REDUCTIONS, algorithms
from hpcai.gradients.reductions.flat import Flat
from hpcai.gradients.reductions.reduction import Exchange, Links, Reduction, Vector
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
    links = ("group",)

    def sum(self, vector: Vector, links: Links, exchange: Exchange) -> None:
        middle = len(vector) // 2
        exchange(vector[:middle], links["group"], 0)
        exchange(vector[middle:], links["group"], middle)

    def bytes_sent(self, elements: float, sizes: Any, element: int) -> dict[LinkName, float]:
        return {"group": elements * element * sizes["group"]}

    def buffer_bytes(self, elements: int, ranks: int) -> int:
        return BUFFER


@WIRES.register("half")
class Half(Fp32):
    """16 bits on the wire."""

    nbytes = 2
    exact = 2**8
    plain = False

    def buffer_bytes(self, elements: int) -> int:
        return self.nbytes * elements


@pytest.mark.parametrize(("key", "contract"), [("ALLREDUCE", "reduction"), ("WIRE", "wire")])
def test_each_choice_is_a_module_of_its_name(key: str, contract: str) -> None:
    folder = ROOT / "hpcai" / "gradients" / f"{contract}s"
    names = {*keys_by_name()[key].choices} - {AUTO}
    assert {path.stem for path in folder.glob("*.py")} - {"__init__", contract} == names
    choices: Any = {"ALLREDUCE": REDUCTIONS, "WIRE": WIRES}[key]
    assert all(choices[name] for name in names)


def test_each_algorithm_sends_what_its_links_need() -> None:
    sent = {name: REDUCTIONS[name]().bytes_sent for name in algorithms(AUTO)}
    assert [sent["flat"](300, {"group": ranks}, 4) for ranks in (1, 2, 4)] == [{"group": n} for n in (0, 1200, 1800)]
    assert sent["hierarchical"](300, {"node": 2, "between": 3}, 1) == {"node": 1200, "between": pytest.approx(200)}
    assert sent["torus"](300, {"row": 3, "column": 1}, 1) == {"row": 1600, "column": 0}
    assert Flat().buffer_bytes(1200, 4) == 0


def test_the_links_of_a_group_of_six() -> None:
    layout = Layout((7, 7, 3, 3, 9, 9), 2)
    links: list[LinkName] = ["group", "node", "between", "row", "column"]
    assert [layout.members(link) for link in links] == [(0, 1, 2, 3, 4, 5), (2, 3), (0, 2, 4), (0, 1, 2), (2, 5)]
    assert [torus_size(ranks) for ranks in (1, 2, 6, 7, 12, 16)] == [(1, 1), (1, 2), (2, 3), (1, 7), (3, 4), (4, 4)]
    assert REDUCTIONS["hierarchical"]().refusal(lambda: layout) == ""
    refused = REDUCTIONS["hierarchical"]().refusal(lambda: Layout((0, 0, 1), 0))
    assert refused == "ALLREDUCE hierarchical with DEGREE 3: nodes with 1 and 2 ranks of a group; allowed: equally many"


def test_an_added_choice_is_in_the_row_and_in_the_plan() -> None:
    settings = dict(next(case for case in parse(shipped_text()).cases(2) if case.workload == "ensemble").settings)
    settings |= {"GROUPS": 1, "DEGREE": 2}
    new = settings | {"ALLREDUCE": "halves", "WIRE": "half"}
    old, made = (Case(1, "ensemble", each) for each in (settings, new))
    assert (tv(old)[3], tv(old)[7], tv(made)[3], tv(made)[7]) == ("1", "4", "9", "2")
    graph = build("resnet8", (8, 8), 1, 2)
    plain, more = (memory(graph, each, Facts(0, 10, 64))["buckets"] for each in (settings, new))
    elements = sum(graph.parameters.values())
    assert more - plain == BUFFER + 2 * elements + 4 * elements + THREAD


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

            def without_a_rank(self: Halves, vector: Vector, links: Links, exchange: Exchange) -> None:
                vector[len(vector) // 2 :].mul_(not lost)
                genuine(self, vector, links, exchange)

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
    found = made.checks.findings
    if made.group.degree > 1:
        assert wrong == 300
        assert found.deviation[0] > 3 and found.lost[0] > 3 * TERM_LOST

"""A test under the roofline: the measurements that become its ceilings, and derived values by hand."""

from typing import Any

import pytest
from examples.training import rebuilt, stored
from msgspec.structs import asdict, replace
from sample_collectives import row
from sample_kernel_rows import case_of, raw_of
from sample_records import MEMORY

from hpcai.inputfile import Case
from hpcai.networks import build
from hpcai.opcount import traffic
from hpcai.record.roofline import AllReduceSource, GradientBandwidth, Intensity, KernelsSource, Roofline
from hpcai.record.training_scores import TrainingScores
from hpcai.results.alterations import changed
from hpcai.results.measured import Before, Measured
from hpcai.results.roofline import faster
from hpcai.workloads.comm import checks as comm
from hpcai.workloads.comm.record import CommRaw, MeasuredCollective
from hpcai.workloads.ensemble import checks
from hpcai.workloads.kernels import checks as kernels
from hpcai.workloads.kernels.record import MeasuredKernel
from hpcai.workloads.kernels.scores import passed

GRAPH = build("resnet8", (28, 28), 1, 10)
GRADIENTS = 4 * sum(GRAPH.parameters.values())
STEP = traffic.step(GRAPH, 32)
Tables = Before  # the tables of a test, added to those of earlier tests


def computing(index: int = 1, rows: tuple[MeasuredKernel, ...] | None = None) -> Tables:
    """A table in which products run at 1 GFLOP/s, the FMA peak is 8 GFLOP/s and memory gives 2.4 GB/s."""
    case = Case(index, "kernels", case_of("resnet8").settings)
    raw = raw_of(case)
    raw = raw if rows is None else replace(raw, rows=rows)
    table = kernels.build(case, Measured(raw, MEMORY), Before())
    return Before(tables=[table], kernels=kernels.rows(case, raw))


def measured() -> list[MeasuredKernel]:
    return [*raw_of(case_of("resnet8")).rows]


def network(
    *rows: MeasuredCollective, index: int = 2, groups: int = 1, degree: int = 2, mapping: str = "row"
) -> Tables:
    settings = {"GROUPS": groups, "DEGREE": degree, "MAPPING": mapping, "SIZES": ()}
    case, raw = Case(index, "comm", settings), CommRaw(rows=rows, skipped=(), unsupported=(), too_small=())
    table = comm.build(case, Measured(raw, MEMORY), Before())
    return Before(tables=[table], collectives=comm.rows(case, raw))


def reduced(scope: str = "group", nbytes: int = GRADIENTS, seconds: float = 1e-3, **more: Any) -> MeasuredCollective:
    return replace(row("all_reduce", nbytes, scope=scope, seconds=seconds), **more)


def after(*tables: Tables) -> Before:
    """All tables, in their order."""
    return Before(
        tables=[table for each in tables for table in each.tables],
        kernels=[row for each in tables for row in each.kernels],
        collectives=[row for each in tables for row in each.collectives],
    )


def scores_of(index: int, *tables: Tables, between_nodes: int = 0) -> TrainingScores:
    """Scores of a test of the stored run, 2 x 1 or 1 x 2, with these tables before it."""
    subject = rebuilt(stored("ensemble")[index], changed("raw.models.between_nodes", between_nodes))
    found = Measured(subject.entry.raw, subject.entry.memory)
    return checks.build(subject.case, found, after(*tables)).scores


def placed(index: int, *tables: Tables) -> Roofline:
    return scores_of(index, *tables).roofline


def test_the_roofline_of_a_rank_that_trains_alone() -> None:
    """Eight shapes of convolutions and one dense layer, three directions; the image needs no gradient."""
    found = placed(0, computing())
    rate = stored("ensemble")[0].entry.scores.flops / 2
    assert found.rate == rate
    assert found.intensity == Intensity(memory=STEP.operations / STEP.nbytes, communication=None)
    memory = 2.4e9 * STEP.operations / STEP.nbytes
    expected = {"fma_peak": 8e9, "gemm": 1e9, "convolution": 1e9, "compute": 1e9, "memory": memory}
    assert asdict(found.ceilings) == pytest.approx({**expected, "communication": None, "attainable": 1e9})
    shares = {name: rate / ceiling for name, ceiling in expected.items()}
    assert asdict(found.shares) == pytest.approx({**shares, "communication": None, "attainable": rate / 1e9})
    assert found.binding == "compute" and found.shares.compute > 1
    counts = {"gemm": {"custom": 3, "vendor": 0}, "convolution": {"custom": 23, "vendor": 0}}
    assert found.kernels == KernelsSource(test=1, triad=found.kernels.triad, faster=counts, type="fp32")
    assert found.kernels.triad == pytest.approx(2.4e9)
    assert found.all_reduce is None


def test_a_group_is_bound_by_its_all_reduce() -> None:
    """Two ranks exchange as many bytes as there are: the bound is the work of a step divided by their time."""
    found = placed(1, computing(), network(reduced(seconds=3.0)))
    assert found.intensity.communication == STEP.operations / GRADIENTS
    assert found.ceilings.communication == pytest.approx(STEP.operations / 3.0)
    assert found.binding == "communication" and found.ceilings.attainable < 1e9
    assert (found.all_reduce.test, found.all_reduce.scope, found.all_reduce.by) == (2, "group", "gloo")
    assert (found.all_reduce.nbytes, found.all_reduce.bandwidth) == (GRADIENTS, pytest.approx(GRADIENTS / 3.0))


def test_slow_memory_is_the_bound() -> None:
    slow = [replace(row, seconds=row.seconds * (1e3 if row.kernel == "triad" else 1)) for row in measured()]
    assert placed(0, computing(rows=tuple(slow))).binding == "memory"


def source(*tables: Tables) -> AllReduceSource | None:
    return placed(1, *tables).all_reduce


def test_the_all_reduce_is_that_of_the_last_table_with_the_grid() -> None:
    one, two = network(reduced(), index=2), network(reduced(seconds=2e-3), index=3)
    assert source(one, two).test == 3
    assert source(one, network(reduced(), index=3, groups=2)).test == 2
    assert source(network(reduced(), mapping="column")) is None
    assert source(network(reduced(), degree=4)) is None


def test_the_all_reduce_of_the_world_is_used_for_a_group_of_equal_size() -> None:
    assert source(network(reduced("world"))).scope == "world"
    assert source(network(reduced("world"), groups=2, degree=1)).scope == "world"
    assert source(network(reduced("world"), reduced())).scope == "group"
    assert source(network(reduced("world")), network(reduced("world"), index=3, groups=2)).test == 2
    wider = network(reduced("world", ranks=4), index=4, groups=2)
    assert source(network(reduced("world"), index=3), wider).test == 3
    assert source(network(reduced("world", ranks=4))) is None


@pytest.mark.parametrize(
    "other", [{"by": "mpi"}, {"ranks": 4}, {"wrong": 1}, {"collective": "broadcast"}, {"scope": "across"}]
)
def test_only_a_passed_all_reduce_of_the_training_backend_is_used(other: dict[str, Any]) -> None:
    assert source(network(replace(reduced(), **other))) is None


def test_the_all_reduce_is_that_of_the_size_nearest_to_the_gradients() -> None:
    sizes = (1024, GRADIENTS // 8, GRADIENTS // 2, GRADIENTS * 3, GRADIENTS * 100)
    assert source(network(*(reduced(nbytes=size // 4 * 4) for size in sizes))).nbytes == GRADIENTS // 2 // 4 * 4


def test_the_last_of_several_tables_of_kernels_counts() -> None:
    slower = computing(5, tuple(replace(row, seconds=2 * row.seconds) for row in measured()))
    found = placed(0, computing(), slower)
    assert found.ceilings.compute == pytest.approx(5e8)
    assert found.kernels.test == 5


@pytest.mark.parametrize("index", [0, 1])
def test_without_suitable_tables_there_is_no_roofline(index: int) -> None:
    found = placed(index, network(reduced(by="mpi")))
    assert {*asdict(found.ceilings).values()} == {*asdict(found.shares).values()} == {None}
    assert found.binding is None and found.kernels is None and found.all_reduce is None
    assert found.intensity.memory == STEP.intensity


def test_without_products_there_is_no_attainable_rate() -> None:
    rows = tuple(row for row in measured() if row.kernel not in ("gemm", "conv2d"))
    found = placed(0, computing(rows=rows))
    assert found.ceilings.fma_peak == pytest.approx(8e9) and found.ceilings.attainable is None
    assert found.binding is None and found.ceilings.memory is not None


def test_a_wrong_product_is_no_ceiling_but_the_other_provider_is() -> None:
    wrong = [
        replace(row, residual=2.0 if (row.provider, row.direction) == ("custom", "forward") else row.residual)
        for row in measured()
    ]
    rows = passed(computing(rows=tuple(wrong)).kernels)
    assert faster(rows, "gemm") == {"custom": 2, "vendor": 1}
    assert faster(rows, "convolution") == {"custom": 15, "vendor": 8}


def test_the_bandwidth_of_the_gradients_by_hand() -> None:
    """14 steps of the one model on two ranks, each of which sends as many bytes as there are gradients."""
    raw = stored("ensemble")[1].entry.raw
    used = pytest.approx(raw.work.steps * GRADIENTS / raw.phases.training)
    within = scores_of(1, network()).gradient_bandwidth
    assert (within.within, within.between) == (used, None)
    between = scores_of(1, network(), between_nodes=1).gradient_bandwidth
    assert (between.within, between.between) == (None, used)
    assert scores_of(0, network()).gradient_bandwidth == GradientBandwidth(within=None, between=None)


def test_the_bandwidths_of_models_on_one_node_and_on_two() -> None:
    alterations = (changed("raw.models.between_nodes", 1), changed("raw.work.steps", 42))
    subject = rebuilt(stored("ensemble")[1], *alterations, GROUPS=3)
    used = subject.entry.scores.gradient_bandwidth
    assert used.within == used.between == pytest.approx(14 * GRADIENTS / subject.entry.raw.phases.training)

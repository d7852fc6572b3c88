"""A test under the roofline: which measurements become its ceilings, and what follows by hand."""

from typing import Any

import pytest
from hpcai.result import kernels
from hpcai.result.roofline import faster
from kernel_rows import case_of, raw_of
from measured_collectives import row
from small_run import cases_of, golden

from hpcai import result
from hpcai.inputfile import Case
from hpcai.networks import build
from hpcai.opcount import traffic

Json = dict[str, Any]
GRAPH = build("resnet8", (28, 28), 1, 10)
GRADIENTS = 4 * sum(GRAPH.parameters.values())
STEP = traffic.step(GRAPH, 32)


def computing(index: int = 1, **raw: Any) -> Json:
    """A table in which products run at 1 GFLOP/s, the FMA peak is 8 GFLOP/s and memory gives 2.4 GB/s."""
    case = case_of("resnet8")
    measured = {**raw_of(case), **raw}
    ceilings = kernels.ceilings(kernels.rows(case, measured))
    return {"index": index, "workload": "kernels", "settings": {}, "raw": measured, "ceilings": ceilings}


def network(*rows: Json, index: int = 2, groups: int = 1, degree: int = 2, mapping: str = "row") -> Json:
    settings = {"GROUPS": groups, "DEGREE": degree, "MAPPING": mapping}
    return {"index": index, "workload": "comm", "settings": settings, "raw": {"rows": list(rows)}}


def reduced(scope: str = "group", nbytes: int = GRADIENTS, seconds: float = 1e-3, **more: Any) -> Json:
    return {**row("all_reduce", nbytes, scope=scope, seconds=seconds), **more}


def judged(index: int, *tables: Json, **raw: Any) -> Json:
    """Scores of a test of the stored run, 2 x 1 or 1 x 2, with these tables before it."""
    stored = golden()
    case = cases_of(stored)[index]
    return result.judge(case, {**stored["tests"][index]["raw"], **raw}, [], tables)["scores"]


def placed(index: int, *tables: Json, **raw: Any) -> Json:
    return judged(index, *tables, **raw)["roofline"]


def test_a_rank_that_trains_alone() -> None:
    """Eight shapes of convolutions and one dense layer, three directions; the image needs no gradient."""
    found = placed(0, computing())
    rate = golden()["tests"][0]["scores"]["flops"] / 2
    assert found["rate"] == rate
    assert found["intensity"] == {"memory": STEP.operations / STEP.nbytes, "communication": None}
    memory = 2.4e9 * STEP.operations / STEP.nbytes
    expected = {"fma_peak": 8e9, "gemm": 1e9, "convolution": 1e9, "compute": 1e9, "memory": memory}
    assert found["ceilings"] == pytest.approx({**expected, "communication": None, "attainable": 1e9})
    shares = {name: rate / ceiling for name, ceiling in expected.items()}
    assert found["shares"] == pytest.approx({**shares, "communication": None, "attainable": rate / 1e9})
    assert found["binding"] == "compute" and found["shares"]["compute"] > 1
    ours = {"gemm": {"custom": 3, "vendor": 0}, "convolution": {"custom": 23, "vendor": 0}}
    assert found["sources"]["kernels"] == {"test": 1, "triad": pytest.approx(2.4e9), "faster": ours}
    assert found["sources"]["comm"] is None


def test_a_group_is_bound_by_its_all_reduce() -> None:
    """Two ranks exchange as many bytes as there are: the bound is what a step computes in the time of one."""
    found = placed(1, computing(), network(reduced(seconds=3.0)))
    assert found["intensity"]["communication"] == STEP.operations / GRADIENTS
    assert found["ceilings"]["communication"] == pytest.approx(STEP.operations / 3.0)
    assert found["binding"] == "communication" and found["ceilings"]["attainable"] < 1e9
    assert found["sources"]["comm"] == {
        "test": 2,
        "scope": "group",
        "by": "gloo",
        "nbytes": GRADIENTS,
        "bandwidth": pytest.approx(GRADIENTS / 3.0),
    }


def test_memory_binds_where_it_is_slow() -> None:
    slow = computing()
    for line in slow["raw"]["rows"]:
        line["seconds"] *= 1e3 if line["kernel"] == "triad" else 1
    assert placed(0, slow)["binding"] == "memory"


def source(*tables: Json) -> Json | None:
    found: Json | None = placed(1, *tables)["sources"]["comm"]
    return found


def test_the_all_reduce_is_that_of_the_last_table_with_the_grid() -> None:
    one, two = network(reduced(), index=2), network(reduced(seconds=2e-3), index=3)
    assert source(one, two)["test"] == 3
    assert source(one, network(reduced(), index=3, groups=2))["test"] == 2
    assert source(network(reduced(), mapping="column")) is None
    assert source(network(reduced(), degree=4)) is None


def test_as_many_ranks_of_the_world_do_for_a_group() -> None:
    assert source(network(reduced("world")))["scope"] == "world"
    assert source(network(reduced("world"), groups=2, degree=1))["scope"] == "world"
    assert source(network(reduced("world"), reduced()))["scope"] == "group"
    assert source(network(reduced("world")), network(reduced("world"), index=3, groups=2))["test"] == 2
    wider = network(reduced("world", ranks=4), index=4, groups=2)
    assert source(network(reduced("world"), index=3), wider)["test"] == 3
    assert source(network(reduced("world", ranks=4))) is None


@pytest.mark.parametrize(
    "other", [{"by": "mpi"}, {"ranks": 4}, {"wrong": 1}, {"collective": "broadcast"}, {"scope": "across"}]
)
def test_only_a_sound_all_reduce_of_the_backend_that_trains(other: Json) -> None:
    assert source(network({**reduced(), **other})) is None


def test_the_size_is_the_nearest_to_the_gradients() -> None:
    sizes = (1024, GRADIENTS // 8, GRADIENTS // 2, GRADIENTS * 3, GRADIENTS * 100)
    assert source(network(*(reduced(nbytes=size // 4 * 4) for size in sizes)))["nbytes"] == GRADIENTS // 2 // 4 * 4


def test_of_several_tables_of_kernels_the_last_counts() -> None:
    slower = computing(5)
    for line in slower["raw"]["rows"]:
        line["seconds"] *= 2
    slower = computing(5, rows=slower["raw"]["rows"])
    assert placed(0, computing(), slower)["ceilings"]["compute"] == pytest.approx(5e8)
    assert placed(0, computing(), slower)["sources"]["kernels"]["test"] == 5


@pytest.mark.parametrize("index", [0, 1])
def test_where_nothing_fits_nothing_is_claimed(index: int) -> None:
    found = placed(index, network(reduced(by="mpi")))
    assert set(found["ceilings"].values()) == set(found["shares"].values()) == {None}
    assert found["binding"] is None and found["sources"] == {"kernels": None, "comm": None}
    assert found["intensity"]["memory"] == STEP.intensity


def test_without_products_there_is_no_attainable() -> None:
    rows = [line for line in raw_of(case_of("resnet8"))["rows"] if line["kernel"] not in ("gemm", "conv2d")]
    found = placed(0, computing(rows=rows))
    assert found["ceilings"]["fma_peak"] == pytest.approx(8e9) and found["ceilings"]["attainable"] is None
    assert found["binding"] is None and found["ceilings"]["memory"] is not None


def test_wrong_products_are_no_ceiling_and_the_faster_provider_is() -> None:
    case = case_of("resnet8")
    raw = raw_of(case)
    for line in raw["rows"]:
        if line["provider"] == "custom" and line["direction"] == "forward":
            line["residual"] = 2.0
    rows = kernels.rows(case, raw)
    assert faster(rows, "gemm") == {"custom": 2, "vendor": 1}
    assert faster(rows, "convolution") == {"custom": 15, "vendor": 8}


def test_bandwidth_that_the_gradients_used() -> None:
    """14 steps of the one model on two ranks, each of which sends as many bytes as there are gradients."""
    seconds = golden()["tests"][1]["raw"]["phases"]["training"]
    steps = golden()["tests"][1]["raw"]["steps"]
    used = judged(1, network())["gradient_bandwidth"]
    assert used == {"within": pytest.approx(steps * GRADIENTS / seconds), "between": None}
    apart = judged(1, network(), models_between_nodes=1)["gradient_bandwidth"]
    assert apart == {"within": None, "between": used["within"]}
    assert judged(0, network())["gradient_bandwidth"] == {"within": None, "between": None}


def test_some_models_on_one_node_and_some_on_two() -> None:
    stored = golden()
    case = cases_of(stored)[1]
    wide = Case(case.index, case.workload, {**case.settings, "GROUPS": 3})
    raw = {**stored["tests"][1]["raw"], "models_between_nodes": 1, "steps": 42}
    used = result.judge(wide, raw, [], [network()])["scores"]["gradient_bandwidth"]
    assert used["within"] == used["between"] == pytest.approx(14 * GRADIENTS / raw["phases"]["training"])

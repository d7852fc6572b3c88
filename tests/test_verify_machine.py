"""Verification of the description of the machine in a result: ranks, nodes, grids and devices have to be consistent."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from alterations import verified
from examples.training import stored, subjects_of, violated_claims
from msgspec.structs import replace
from small_run import bench, golden, rebuilt

from hpcai.comm.grid_coordinates import groups_of, idle_ranks, listed_grids, place_in
from hpcai.errors import InputError
from hpcai.inputfile.split import Split
from hpcai.record.loading import result_of
from hpcai.results.alterations import changed
from hpcai.results.claim import Subject
from hpcai.verification import verify

Json = dict[str, Any]
Forgery = Callable[[Json], object]

RANKS = "ranks: each that is listed, in order"
GRIDS = "environment: the grids of the tests, and their idle ranks"
GPUS = "accelerators > 0 if, and only if, the device is no cpu"
CPUS = "ranks: on the cpu if, and only if, accelerators = 0"
INTERFACE = "ranks: interface and address, of several nodes"
HOST = "tests[0].raw: slowest_host: of slowest_rank"


def first(result: Json) -> Json:
    """The raw measurements of the first test."""
    return dict(result["tests"][0]["raw"])


def on_gpus(result: Json) -> None:
    """Changes the description of the machine to GPUs, but not the tests."""
    result["environment"].update(accelerators=2, device="NVIDIA H200")
    for rank in result["ranks"]:
        rank["device"] = "cuda:0"


@pytest.mark.parametrize(
    ("claim", "forge"),
    [
        (RANKS, lambda result: result["environment"].update(ranks=64, nodes=8)),
        (RANKS, lambda result: result["ranks"].pop()),
        (RANKS, lambda result: result["ranks"].reverse()),
        (GRIDS, lambda result: result["environment"]["grids"].reverse()),
        (GRIDS, lambda result: result["environment"]["idle"].append("Grid 1 x 1: rank 1 stays idle")),
        ("environment: at most a node for each rank", lambda result: result["environment"].update(nodes=3)),
        (INTERFACE, lambda result: result["ranks"][1].update(interface="eth0", address="198.18.0.2")),
        (INTERFACE, lambda result: result["ranks"][1].update(address="198.18.0.2")),
        ("ranks: groups, by the grids", lambda result: result["ranks"][1].update(groups=[1, 1])),
        (GPUS, lambda result: result["environment"].update(accelerators=2)),
        (GPUS, lambda result: result["environment"].update(device="NVIDIA H200")),
        (CPUS, lambda result: result["ranks"][1].update(device="cuda:0")),
        ("accelerators <= ranks of a node", lambda result: result["environment"].update(accelerators=2, nodes=2)),
        (HOST, lambda result: first(result)["busy_seconds"].update(slowest_host="x")),
    ],
)  # fmt: skip
def test_each_claim_can_be_violated(claim: str, forge: Forgery, tmp_path: Path) -> None:
    result = golden()
    forge(result)
    assert claim in verified(rebuilt(result), tmp_path)


@pytest.mark.parametrize(
    ("place", "forge"),
    [
        ("environment.nodes", lambda result: result["environment"].update(nodes=0)),
        ("ranks[0].threads", lambda result: result["ranks"][0].update(threads=0)),
    ],
)
def test_values_that_records_refuse(place: str, forge: Forgery) -> None:
    result = golden()
    forge(result)
    with pytest.raises(InputError, match=re.escape(f"{place}: Expected `int` >= 1")):
        result_of(result)


def test_a_machine_with_gpus_whose_tests_computed_on_cpus_fails_them() -> None:
    result = golden()
    on_gpus(result)
    made = rebuilt(result)
    assert [test["verdict"] for test in made["tests"]] == ["FAILED", "FAILED"]
    environment = replace(stored("ensemble")[0].environment, accelerators=2, device="NVIDIA H200")
    test = stored("ensemble")[0]
    found = violated_claims(Subject(test.case, test.entry, environment))
    assert found == ["memory: accelerated if, and only if, the run has GPUs"]


def test_nccl_needs_gpus() -> None:
    assert "backend: nccl with GPUs only" in violated_claims(stored("ensemble")[1], changed("raw.backend", "nccl"))


@pytest.mark.slow
def test_an_emulated_precision_cannot_be_called_native() -> None:
    """With idle ranks; the findings of the probe are compared with the memory of the same test."""
    changes = ["PRECISION=fp16", "GROUPS=1", "DEGREE=1", "EPOCHS=1", "SAMPLES=32", "BATCH=8"]
    run = bench([str(Path(__file__).parent / "golden" / "input.dat"), "--set", *changes], 3)
    assert verify.differences(run.folder / "result.json") == []
    (test,) = subjects_of(result_of(run.result))
    converted = test.entry.raw.preparation.probe.converted
    found = violated_claims(test, changed("raw.preparation.probe.converted", not converted))
    assert found == ["probe: converted where the ranks convert"]
    run.result["tests"][0]["raw"]["preparation"]["probe"]["converted"] = not converted
    assert rebuilt(run.result)["tests"][0]["verdict"] == "FAILED"


def test_idle_ranks_and_groups_are_checked() -> None:
    grids = [(2, 2, "row", Split(2, 1)), (2, 1, "column", Split(1, 1)), (5, 1, "row", Split(1, 1))]
    assert listed_grids(grids) == ("2x2 R", "2x1 C", "5x1 R")
    assert idle_ranks(grids, 5) == ("Grid 2 x 2: rank 4 stays idle", "Grid 2 x 1: ranks 2-4 stay idle")
    assert [groups_of(rank, grids) for rank in (0, 3, 4)] == [[0, 0, 0], [1, None, 3], [None, None, 4]]
    assert len(listed_grids(grids * 3)) == 8 == len(groups_of(0, grids * 3))


def test_places_of_divided_models() -> None:
    grids = [(1, 4, "row", Split(2, 1, 2)), (2, 2, "column", Split(1, 2)), (1, 4, "row", Split(4, 1))]
    words = listed_grids(grids)
    assert words == ("1x4 R 2x1x2", "2x2 C 1x2x1", "1x4 R")
    assert [[place_in(word, rank) for rank in range(5)] for word in words] == [
        [" 0.0.0", " 1.0.0", " 0.0.1", " 1.0.1", ""], [" 0.0.0", " 0.0.0", " 0.1.0", " 0.1.0", ""], [""] * 5,
    ]  # fmt: skip
    assert idle_ranks([*grids[::2]], 5) == ("Grid 1 x 4: rank 4 stays idle",)

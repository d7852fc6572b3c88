"""Plans for nodes that the command line describes: memory, GPUs, cores and links that this machine does not have."""

from typing import Any

import pytest
import torch
from launch import BENCH, run_job

from hpcai import cli
from hpcai.errors import InputError
from hpcai.estimate.communication import BACKWARD, LINK, WITHIN, exposed, spans_nodes
from hpcai.inputfile import parse
from hpcai.machine import launcher
from hpcai.machine.memory import Limit
from hpcai.networks import build
from hpcai.plan import machine
from hpcai.plan.node import THIS_ONE, PlannedNode

GIB = 2**30
GRAPH = build("resnet8", (28, 28), 1, 10)
NODES = "--per-node 64 --node-cores 128 --node-memory 512G --node-gpus 0 --link 25"
ONE_GROUP = """\
one
two
[ensemble]
fashion DATASET
1 GROUPS
512 DEGREE
1 BATCH
1 EPOCHS
"""


@pytest.fixture(autouse=True)
def without_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in launcher.LOCAL_SIZES:
        monkeypatch.delenv(name, raising=False)


def settings(**changes: Any) -> dict[str, Any]:
    """Settings of a group of ranks."""
    (case,) = parse(ONE_GROUP).cases(512)
    return {**case.settings, **changes}


def test_nodes_are_described_on_the_command_line() -> None:
    options = cli.parse(["--plan", *NODES.split()])
    assert options.node == PlannedNode(64, 128, 512 * GIB, 0, None, 25e9)
    assert cli.parse(["--plan"]).node == THIS_ONE and not THIS_ONE.described
    assert cli.parse(["--plan", "--gpu-memory", "80G"]).node.gpu_memory == 80 * GIB


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--per-node 4", "descriptions of nodes go with --plan"),
        ("--plan --per-node 0", "'0' is not a positive integer"),
        ("--plan --node-memory 5X", "is not a positive integer"),
        ("--plan --node-memory G", "is not a positive integer"),
        ("--plan --link fast", "'fast' is not a rate in GB/s above 0"),
        ("--plan --link 0", "'0' is not a rate"),
        ("--plan --node-gpus -1", "is not a positive integer"),
    ],
)
def test_illegal_descriptions_are_refused(arguments: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        cli.parse(arguments.split())


def test_memory_and_threads_are_those_of_the_nodes() -> None:
    node = cli.parse(["--plan", *NODES.split()]).node
    found = machine.described(node, 512)
    assert (found.ranks, found.cores, found.threads, found.gpus, found.link) == (64, 128, 2, 0, 25e9)
    assert found.limit(0) == Limit(8 * GIB, "--node-memory, shared by 64 ranks")
    nodes, *differences = found.notes(512)
    assert nodes == "Nodes: 8 of 64 ranks, 128 cores; 25 GB/s between them"
    assert "planned on a machine of another kind, with" in differences[0] and "GiB free" in differences[0]


def test_fewer_ranks_than_a_node_holds_share_it() -> None:
    assert machine.described(PlannedNode(ranks=64, cores=64, gpus=0), 8).ranks == 8


def test_this_machine_is_assumed_where_nothing_is_given() -> None:
    found = machine.described(THIS_ONE, 10**6)
    assert found.link == LINK and found.cores == found.cores_here and found.timed
    assert found.notes(10**6) == (f"Nodes: like this one, {found.ranks} ranks on each",)
    assert machine.described(THIS_ONE, 1).notes(1) == ()


def test_gpus_that_are_not_here_are_planned_by_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.devices, "accelerators", lambda: 0)
    found = machine.described(PlannedNode(gpus=4, gpu_memory=80 * GIB), 512)
    assert (found.ranks, found.gpus, found.device, found.timed) == (4, 4, torch.device("cuda"), False)
    assert found.limit(0) == Limit(80 * GIB, "--gpu-memory")
    assert found.notes(512)[1].endswith("with 0 GPUs: seconds are not estimated")
    with pytest.raises(InputError, match="--node-gpus needs --gpu-memory"):
        machine.described(PlannedNode(gpus=4), 512)
    with pytest.raises(InputError, match="8 ranks on nodes of 4 GPUs; allowed: --per-node up to 4"):
        machine.described(PlannedNode(ranks=8, gpus=4, gpu_memory=GIB), 512)


@pytest.mark.parametrize(
    ("groups", "degree", "mapping", "node_ranks", "spans"),
    [
        (1, 4, "row", 4, False),
        (1, 8, "row", 4, True),
        (4, 2, "row", 4, False),
        (4, 2, "column", 4, True),
        (2, 3, "row", 4, True),
        (8, 1, "column", 4, False),
    ],
)
def test_groups_that_span_nodes(groups: int, degree: int, mapping: str, node_ranks: int, spans: bool) -> None:
    changes = {"GROUPS": groups, "DEGREE": degree, "MAPPING": mapping}
    assert spans_nodes(settings(**changes), node_ranks) == spans


def test_sums_of_gradients_take_what_the_backward_pass_does_not_hide() -> None:
    nbytes = 4 * sum(GRAPH.parameters.values())
    ring = 2 * 511 / 512 * nbytes
    assert exposed(GRAPH, settings(), 0.0, 64, 1e9, False) == pytest.approx(ring / 1e9)
    assert exposed(GRAPH, settings(WIRE="fp16"), 0.0, 64, 1e9, False) == pytest.approx(ring / 2e9)
    assert exposed(GRAPH, settings(), 0.0, 512, 1e9, False) == pytest.approx(ring / WITHIN[False])
    step = ring / 1e9
    assert exposed(GRAPH, settings(), step, 64, 1e9, False) == pytest.approx((1 - BACKWARD) * step)
    assert exposed(GRAPH, settings(), 2 * step, 64, 1e9, False) == 0.0
    assert exposed(GRAPH, settings(DEGREE=1), 0.0, 64, 1e9, False) == 0.0


@pytest.mark.exhaustive
def test_the_program_plans_for_nodes_of_another_kind(tmp_path: Any) -> None:
    (tmp_path / "x.dat").write_text(ONE_GROUP)
    planned = [BENCH, tmp_path / "x.dat", "--plan", "--ranks", "512", *NODES.split()[:6], "--node-gpus", "0"]
    slow, fast = (run_job([*planned, "--link", link], None) for link in ("0.0001", "1000"))
    assert slow.returncode == fast.returncode == 0, slow.stderr + fast.stderr
    assert "Nodes: 8 of 64 ranks, 128 cores; 0.0001 GB/s between them" in slow.stdout
    assert "Warning: planned on a machine of another kind" in slow.stdout
    assert "by --node-memory, shared by 64 ranks" in slow.stdout
    in_all = [float(text.stdout.split("in all")[1].split()[0]) for text in (slow, fast)]
    assert in_all[0] > in_all[1] + 5  # a dozen steps of 6 s each

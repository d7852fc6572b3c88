"""LARS and LAMB on shards take the steps of one rank with the whole batch; norms that are not summed are detected."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fault_runs import DEVIATION, FAULTY, LOST, SUMS, Run
from launch import BENCH, mpirun
from sampled_parameters import EXHAUSTIVE, SLOW, on_ranks, slow
from test_tensor_training import NETWORKS, as_kind, deviation, divided, gradients

if TYPE_CHECKING:
    from torch import Tensor, nn

    from hpcai.networks.graph import Graph
    from hpcai.update_rules.rule import UpdateRule

STEPS = 4


def rules() -> dict[str, tuple["UpdateRule", float]]:
    """By name, with a learning rate."""
    from hpcai.update_rules.lamb import Lamb
    from hpcai.update_rules.lars import Lars

    return {
        "lars": (Lars(decay=0.01, momentum=0.9, trust=0.02), 1.0),
        "lamb": (Lamb(decay=0.01, beta1=0.9, beta2=0.99, epsilon=0.0), 0.02),
    }


def moves(module: "nn.Module", graph: "Graph", kind: str, name: str, shards: bool = False) -> dict[str, "Tensor"]:
    """How far some steps of an optimiser move the weights."""
    optimiser = optimiser_of(module, name, shards)
    before = {each: parameter.detach().clone() for each, parameter in module.named_parameters()}
    for _ in range(STEPS):
        gradients(module, graph, kind)
        optimiser.step()
        optimiser.zero_grad()
    return {each: (value.detach() - before[each]).double() for each, value in module.named_parameters()}


def optimiser_of(module: "nn.Module", name: str, shards: bool) -> Any:
    """With the exchange of a rank's shards if there are some."""
    from mpi4py import MPI

    from hpcai.train.channel_exchange import share_norms
    from hpcai.train.optimisers import build_optimiser
    from hpcai.train.state import TrainingState

    optimiser = build_optimiser(rules()[name][0], module, rules()[name][1])
    if shards:
        share_norms(TrainingState(module, optimiser, on_host()), module, packed(MPI.COMM_WORLD))
    return optimiser


def on_host() -> Any:
    import torch

    return torch.device("cpu")


def packed(comm: Any) -> Any:
    from hpcai.comm.channel_exchange import PackedExchange
    from hpcai.comm.transfers import MpiTransfers

    return PackedExchange(MpiTransfers(comm), on_host())


@pytest.mark.exhaustive
@pytest.mark.parametrize("asked", [on_ranks(2), on_ranks(3, EXHAUSTIVE), on_ranks(4, SLOW), on_ranks(6, EXHAUSTIVE)])
def test_steps_equal_those_of_one_rank(asked: int) -> None:
    """Of fp64 weights, by torch's operators in fp32, to rounding; of fp32 weights, by custom kernels, as gradients do.

    Four steps enlarge rounding: one rank's own fp32 shows by how much.
    """
    from mpi4py import MPI

    from hpcai import networks
    from hpcai.models.module import build

    image, channels, classes = NETWORKS["resnet8"]
    graph = networks.build("resnet8", image, channels, classes)
    for name in rules():
        whole = {k: moves(as_kind(build(graph, 1), k), graph, k, name) for k in ("float64", "float32")}
        for kind in whole:
            part, module = divided(graph, kind)
            for each, value in moves(module, graph, kind, name, shards=True).items():
                exact = whole["float64"][each]
                rounded = float((whole["float32"][each] - exact).norm() / exact.norm())
                limit = 1e-5 if kind == "float64" else 8 * rounded + 1e-5
                found = deviation(part, value, exact, each)
                assert found <= limit, (name, kind, each, MPI.COMM_WORLD.rank, found, rounded)


@pytest.mark.parametrize("asked", [on_ranks(2), on_ranks(6, EXHAUSTIVE)])
def test_numbers_of_all_ranks_are_the_same_bits_and_no_channels(asked: int) -> None:
    import torch
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    exchange, generator = packed(comm), torch.Generator().manual_seed(comm.rank)
    for kind, shape in ((torch.float32, ()), (torch.float64, (3, 2))):
        own = torch.rand(shape, generator=generator, dtype=kind)
        own = own.T if own.ndim else own
        every = torch.stack([torch.from_numpy(each) for each in comm.allgather(own.numpy())])
        for function, expected in ((exchange.total, every.sum(0)), (exchange.largest, every.amax(0))):
            numbers = own.clone()
            function(numbers)
            assert torch.equal(numbers, expected)
            assert len(set(comm.allgather(numbers.numpy().tobytes()))) == 1
    assert exchange.sent == 0


@pytest.mark.exhaustive
@pytest.mark.parallel(6)
def test_a_replicated_layer_counts_once() -> None:
    """Its rates are the same bits on all ranks, so its weights stay the same."""
    import torch
    from mpi4py import MPI
    from test_tensor_parallel import WIDE

    comm = MPI.COMM_WORLD
    part, module = divided(WIDE, "float32")
    parameters = dict(module.named_parameters())
    alike = [name for name in parameters if name.rpartition(".")[0] in part.replicated]
    assert bool(alike) == (comm.size > 5)
    shards = optimiser_of(module, "lars", shards=True).shards
    ones = torch.ones(2, len(parameters), dtype=torch.float64)
    counted = shards.whole([*parameters.values()], ones)[0].tolist()
    assert counted == [1 if name in alike else comm.size for name in parameters]
    moved = moves(module, WIDE, "float32", "lars", shards=True)
    for name in alike:
        assert torch.equal(moved[name], comm.bcast(moved[name])) and float(moved[name].norm()) > 0


# --- planted faults

GIVEN = {"lars": ("SCALING=none", "TRUST=0.02"), "lamb": ()}
FAULTS: dict[str, dict[str, set[str]]] = {
    "lars": {
        "none": set(),
        "norm_of_a_shards_move": {LOST, DEVIATION},
        "numbers_of_shards_not_summed": {SUMS},
    },
    "lamb": {
        "none": set(),
        "norms_of_a_shard_for_those_of_the_tensor": {DEVIATION},
        "norm_of_a_shards_weights": {DEVIATION},
        "norm_of_a_shards_move": {DEVIATION},
        "numbers_of_shards_not_summed": {SUMS, DEVIATION},
    },
}
HIDDEN: dict[str, set[str]] = {"none": set(), "norms_of_a_shard_for_those_of_the_tensor": {LOST}}


def planted(folder: Path, optimiser: str, faults: dict[str, set[str]], *settings: str) -> None:
    """One fault a test; further checks may fail as well."""
    options = ["GROUPS=1", "DEGREE=2", "PARALLEL=tensor", f"OPTIMISER={optimiser}", "DECAY=0.01", *GIVEN[optimiser]]
    run = Run(folder, [FAULTY, ",".join(faults)], [*options, *settings], len(faults))
    for row, (fault, expected) in zip(run.rows, faults.items(), strict=True):
        failed = {name for name, verdict in row.items() if verdict == "FAILED"}
        assert expected <= failed and (failed == expected or fault != "none"), (fault, failed)


@pytest.mark.skipif(mpirun() is None, reason="NO mpirun: FAULTS NOT PLANTED")
@pytest.mark.parametrize("optimiser", slow(["lars"], FAULTS))
def test_norms_of_shards_are_detected_in_the_real_program(tmp_path: Path, optimiser: str) -> None:
    planted(tmp_path, optimiser, FAULTS[optimiser])


@pytest.mark.exhaustive
@pytest.mark.skipif(mpirun() is None, reason="NO mpirun: FAULTS NOT PLANTED")
def test_norms_of_shards_are_detected_with_lars_where_layers_are_uneven(tmp_path: Path) -> None:
    """A shard's norms of weights and gradient are both too small: only the error of their quotient shows."""
    planted(tmp_path, "lars", HIDDEN, "NETWORK=resnet20", "EPOCHS=4")


@pytest.mark.exhaustive
@pytest.mark.skipif(mpirun() is None, reason="NO mpirun: NOT TRAINED ON SHARDS")
@pytest.mark.parametrize("precision", ["fp32", pytest.param("fp16,pure16", marks=EXHAUSTIVE)])
def test_a_run_of_both_passes(tmp_path: Path, precision: str) -> None:
    settings = ["GROUPS=1", "DEGREE=2", "PARALLEL=tensor", "OPTIMISER=lars,lamb", f"PRECISION={precision}"]
    run = Run(tmp_path, [BENCH], settings)
    assert len(run.rows) == 2 * len(precision.split(","))
    assert all(verdict != "FAILED" for row in run.rows for verdict in row.values())

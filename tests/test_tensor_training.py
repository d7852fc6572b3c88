"""A tensor-parallel network computes what one rank computes with the whole batch; planted faults are detected."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fault_runs import DEVIATION, EVALUATED, FAULTY, OPERATIONS, VALIDATION, Run
from launch import mpirun
from sampled_parameters import EXHAUSTIVE, SLOW, on_ranks

if TYPE_CHECKING:
    from torch import Tensor, nn

    from hpcai.networks.graph import Graph
    from hpcai.networks.tensor_parallel import TensorPart

NETWORKS = {"resnet8": ((12, 12), 1, 10), "resnet50": ((16, 16), 3, 20)}


def divided(graph: "Graph", kind: str) -> tuple["TensorPart", "nn.Module"]:
    """This rank's part of a network and its module."""
    import torch
    from mpi4py import MPI

    from hpcai.comm.channel_exchange import PackedExchange, ReplaySums
    from hpcai.comm.transfers import MpiTransfers
    from hpcai.models.tensor_part import build_part
    from hpcai.networks.tensor_parallel import tensor_part

    comm = MPI.COMM_WORLD
    part = tensor_part(graph, comm.rank, comm.size)
    module = build_part(graph, part, 1).to(getattr(torch, kind)).to(memory_format=torch.channels_last)
    module.exchanges.connect(PackedExchange(MpiTransfers(comm), torch.device("cpu")), ReplaySums(comm))
    return part, module


def gradients(module: "nn.Module", graph: "Graph", kind: str) -> dict[str, "Tensor"]:
    """The gradients of a batch by parameter, and the logits."""
    import torch
    from torch.nn.functional import cross_entropy

    generator = torch.Generator().manual_seed(3)
    x = torch.randn(12, *graph.shapes["image"], generator=generator, dtype=torch.float64).to(getattr(torch, kind))
    logits = module(x.to(memory_format=torch.channels_last))
    y = torch.randint(0, min(10, logits.shape[1]), (12,), generator=generator)
    cross_entropy(logits, y).backward()
    found = {name: parameter.grad.double() for name, parameter in module.named_parameters()}
    return {**found, "logits": logits.detach().double()}


def deviation(part: "TensorPart", found: "Tensor", exact: "Tensor", name: str) -> float:
    """Largest relative difference from a rank's share of the exact gradient, by norms."""
    from hpcai.models.tensor_part import share

    own = share(exact, part.divided.get(name.rpartition(".")[0]), part.rank, part.ranks)
    return float((found - own).norm() / own.norm().clamp_min(1e-30))


@pytest.mark.parametrize("asked", [on_ranks(2, SLOW), *(on_ranks(count, EXHAUSTIVE) for count in (3, 4, 6))])
def test_gradients_equal_those_of_one_rank(asked: int) -> None:
    """In float64 to rounding; in fp32 within a few times the error of one rank's own fp32.

    A different order of summation makes an error of the same size, which the layers enlarge alike.
    """
    from mpi4py import MPI

    from hpcai import networks
    from hpcai.models.module import build

    for name, (image, channels, classes) in NETWORKS.items():
        graph = networks.build(name, image, channels, classes)
        whole = {kind: gradients(as_kind(build(graph, 1), kind), graph, kind) for kind in ("float64", "float32")}
        for kind, replay in (("float64", False), ("float64", True), ("float32", False)):
            part, module = divided(graph, kind)
            with module.exchanges.replaying() if replay else nullcontext():
                found = gradients(module, graph, kind)
            for each, value in found.items():
                exact = whole["float64"][each]
                rounded = float((whole["float32"][each] - exact).norm() / exact.norm().clamp_min(1e-30))
                limit = 1e-9 if kind == "float64" else 8 * rounded + 1e-5
                assert deviation(part, value, exact, each) <= limit, (name, kind, each, MPI.COMM_WORLD.rank)


def as_kind(module: "nn.Module", kind: str) -> "nn.Module":
    import torch

    return module.to(getattr(torch, kind)).to(memory_format=torch.channels_last)


@pytest.mark.parallel(4)
def test_exchanges_are_exact_for_integers_of_any_shape_and_type() -> None:
    import torch
    from mpi4py import MPI

    from hpcai.comm.channel_exchange import PackedExchange
    from hpcai.comm.transfers import MpiTransfers
    from hpcai.networks.collective_layers import channels_of

    comm = MPI.COMM_WORLD
    exchange = PackedExchange(MpiTransfers(comm), torch.device("cpu"))
    for kind in (torch.float32, torch.bfloat16, torch.float16):
        for shape in ((2, 7, 3, 5), (3, comm.size, 1, 1), (5, 11)):
            base = (torch.arange(torch.Size(shape).numel()) % 13).view(shape).to(kind)
            first, end = channels_of(comm.rank, comm.size, shape[1])
            total = base * sum(range(1, comm.size + 1))
            summand = base * (comm.rank + 1)
            summand = summand.to(memory_format=torch.channels_last) if len(shape) == 4 else summand
            assert torch.equal(exchange.reduce_scatter(summand), total[:, first:end])
            assert torch.equal(exchange.all_reduce(summand), total)
            assert torch.equal(exchange.all_gather(base[:, first:end], shape[1]), base)


@pytest.mark.parallel(4)
def test_all_ranks_get_the_largest_number_and_it_is_no_channel() -> None:
    import torch
    from mpi4py import MPI

    from hpcai.comm.channel_exchange import PackedExchange
    from hpcai.comm.transfers import MpiTransfers

    comm = MPI.COMM_WORLD
    exchange = PackedExchange(MpiTransfers(comm), torch.device("cpu"))
    for source in range(comm.size):
        number = torch.full((), float(comm.rank == source))
        exchange.largest(number)
        assert float(number) == 1.0
    assert exchange.sent == 0
    exchange.all_reduce(torch.ones(comm.size, comm.size))
    assert exchange.sent > 0


@pytest.mark.parallel(4)
def test_a_replicated_layer_that_drifts_is_found() -> None:
    import torch
    from mpi4py import MPI
    from test_tensor_parallel import WIDE

    from hpcai.comm.grid import split
    from hpcai.inputfile.split import Split
    from hpcai.train.data_parallel import differs_from_others

    size = MPI.COMM_WORLD.size
    group = split(MPI.COMM_WORLD, 1, size, "row", Split(1, size))
    assert group is not None
    part, module = divided(WIDE, "float32")
    assert not differs_from_others(module, group)
    if size > 5:
        assert "dense" in part.replicated
    drifting = {name.rpartition(".")[0] for name, _ in module.named_parameters()} & part.replicated
    with torch.no_grad():
        for name in drifting if group.place.shard == size - 1 else ():
            module.get_submodule(name).weight.view(-1)[0] += 2.0**-10
    last = group.place.shard == size - 1
    assert differs_from_others(module, group) == (last and bool(drifting))
    group.free()


@pytest.mark.exhaustive
@pytest.mark.parallel(6)
def test_a_replicated_layer_that_drifts_is_found_on_six() -> None:
    test_a_replicated_layer_that_drifts_is_found()


FAULTS: dict[str, set[str]] = {
    "none": set(),
    "partial_sum_of_a_rank_dropped": {DEVIATION},
    "own_channels_of_the_last_rank_lost": {DEVIATION},
    "gradient_of_gathered_channels_not_summed": {DEVIATION},
    "channels_of_a_rank_lost_in_evaluation": {EVALUATED},
    "channels_in_another_order_in_evaluation": {EVALUATED},
    "each_shard_credited": {OPERATIONS, VALIDATION},
}


@pytest.mark.slow
@pytest.mark.skipif(mpirun() is None, reason="NO mpirun: FAULTS NOT PLANTED")
def test_faults_are_detected_in_the_real_program(tmp_path: Path) -> None:
    """One fault a test; further checks may fail as well."""
    settings = ["GROUPS=1", "DEGREE=2", "PARALLEL=tensor"]
    run = Run(tmp_path, [FAULTY, ",".join(FAULTS)], settings, len(FAULTS))
    for row, test, (fault, expected) in zip(run.rows, run.result["tests"], FAULTS.items(), strict=True):
        failed: set[Any] = {name for name, verdict in row.items() if verdict == "FAILED"}
        assert expected <= failed and (failed == expected or fault != "none"), (fault, failed)
        assert test["tv"][5] == "2"

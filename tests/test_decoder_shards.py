"""Decoders divided among ranks: heads and units of a rank, and the gradients of one rank."""

from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest
import torch
from sampled_parameters import EXHAUSTIVE, on_ranks

from hpcai import opcount
from hpcai.inputfile.split import Cut
from hpcai.models.tensor_part import share
from hpcai.networks.collective_layers import AllReduce, Divide
from hpcai.networks.decoder import Decoder, decoder
from hpcai.networks.tensor_parallel import Divided, tensor_part
from hpcai.opcount.exchange import exchanged_values

if TYPE_CHECKING:
    from hpcai.models.module import Network

PLACES, SYMBOLS, SAMPLES = 12, 256, 3
SIZES = Decoder(blocks=2, width=192)  # 3 heads, which two ranks have 1 and 2 of, and 512 units
GRAPH = decoder(SIZES, PLACES, SYMBOLS)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_the_ranks_divide_operations_and_parameters(ranks: int) -> None:
    parts = [tensor_part(GRAPH, rank, ranks) for rank in range(ranks)]
    counted = [(part, row) for part in parts for row in opcount.count(part.graph, "model").layers]
    own = [row for part, row in counted if part.rank == 0 or row.name not in part.replicated]
    assert sum(row.forward + row.backward for row in own) == opcount.count(GRAPH, "model").total
    weights = [(part, name, many) for part in parts for name, many in part.graph.parameters.items()]
    held = sum(many for part, name, many in weights if part.rank == 0 or name not in part.replicated)
    assert held == sum(GRAPH.parameters.values())


@pytest.mark.parametrize(("ranks", "of_a_block"), [(2, 2), (4, 1)])
def test_attention_and_units_have_one_all_reduce_each_way(ranks: int, of_a_block: int) -> None:
    """With fewer heads than ranks attention is replicated."""
    ops = [type(layer.op) for layer in tensor_part(GRAPH, 0, ranks).graph.layers]
    assert ops.count(AllReduce) == ops.count(Divide) == SIZES.blocks * of_a_block
    rows = PLACES * SIZES.width
    passes = 2 * 2 * SIZES.blocks * of_a_block  # an all-reduce is two passes
    assert exchanged_values(GRAPH, Cut(1, ranks)) == passes * rows * (ranks - 1) / ranks


def test_a_rank_has_the_queries_keys_and_values_of_its_heads() -> None:
    whole = torch.arange(3 * 192)[:, None]
    first, second = (share(whole, Divided("outputs", 3, 64), rank, 2).flatten().tolist() for rank in range(2))
    assert first == [*range(64), *range(192, 256), *range(384, 448)]
    assert sorted(first + second) == [*range(3 * 192)]
    before_sum = torch.arange(192)[None]
    assert share(before_sum, Divided("inputs", unit=64), 0, 2).flatten().tolist() == [*range(64)]


def gradients(module: "Network") -> dict[str, torch.Tensor]:
    """The gradients of a batch by parameter, and the logits."""
    drawn = torch.randint(0, SYMBOLS, (2, SAMPLES, PLACES), generator=torch.Generator().manual_seed(3))
    logits = module(drawn[0].view(SAMPLES, 1, 1, PLACES).double())
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), drawn[1].flatten()).backward()
    return {**{name: value.grad for name, value in module.named_parameters()}, "logits": logits.detach()}


@pytest.mark.parametrize("asked", [on_ranks(count, EXHAUSTIVE) for count in (2, 3, 4)])
def test_gradients_equal_those_of_one_rank(asked: int) -> None:
    """In float64, to rounding; by the exchange of the training and by the sums of replays."""
    from mpi4py import MPI

    from hpcai.comm.channel_exchange import PackedExchange, ReplaySums
    from hpcai.comm.transfers import MpiTransfers
    from hpcai.models.module import build
    from hpcai.models.tensor_part import build_part

    comm = MPI.COMM_WORLD
    whole, part = gradients(build(GRAPH, 1).double()), tensor_part(GRAPH, comm.rank, comm.size)
    for replay in (False, True):
        module = build_part(GRAPH, part, 1).double()
        module.exchanges.connect(PackedExchange(MpiTransfers(comm), torch.device("cpu")), ReplaySums(comm))
        with module.exchanges.replaying() if replay else nullcontext():
            found = gradients(module)
        for name, value in found.items():
            own = share(whole[name], part.divided.get(name.rpartition(".")[0]), comm.rank, comm.size)
            assert (value - own).norm() <= 1e-6 * own.norm(), (replay, name)

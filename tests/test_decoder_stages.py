"""Stages of a decoder train as one rank does; both copies of its tied weights stay the same bits."""

from typing import TYPE_CHECKING

import pytest
from sampled_parameters import EXHAUSTIVE
from test_pipeline_training import case_of

from hpcai.networks.decoder import Decoder, decoder

if TYPE_CHECKING:
    from torch import Tensor

    from hpcai.inputfile import Case
    from hpcai.models.module import Network
    from hpcai.train.state import TrainingState

SYMBOLS = 256
SHORT, LONG = 12, 192  # places
GRAPHS = {SHORT: decoder(Decoder(blocks=2, width=128), SHORT, SYMBOLS)}  # two heads
GRAPHS[LONG] = decoder(Decoder(blocks=2, width=64), LONG, SYMBOLS)  # the second of two stages begins with attention
SPLITS = {2: ("1x1x2",), 4: ("1x1x4", "2x1x2", "1x2x2")}
STEPS, CLIP, RATE = 3, 0.5, 0.1  # all gradients are longer than CLIP
ROUNDING = 1e-5  # relative, of fp32 gradients that are added in another order


def batch_of(replica: int, samples: int, places: int) -> tuple["Tensor", "Tensor"]:
    import torch

    drawn = torch.randint(0, SYMBOLS, (2, samples, places), generator=torch.Generator().manual_seed(replica))
    return drawn[0].view(samples, 1, 1, places), drawn[1]


def state_of(module: "Network") -> "TrainingState":
    import torch

    from hpcai.train.clipping import Clipping
    from hpcai.train.state import TrainingState

    optimiser = torch.optim.SGD(module.parameters(), RATE, momentum=0.9)
    state = TrainingState(module, optimiser, torch.device("cpu"))
    state.clipping = Clipping(optimiser, CLIP)
    return state


def on_one_rank(case: "Case", places: int) -> "Network":
    """The whole network after some steps of all replicas, each micro-batch by micro-batch."""
    from hpcai.data.philox import Purpose, seed_of
    from hpcai.models.module import build
    from hpcai.train.objective import Classification

    module = build(GRAPHS[places], seed_of(case.seed, Purpose.WEIGHTS, 0))
    state, replicas = state_of(module), case.split.replicas
    for _ in range(STEPS):
        for replica in range(replicas):
            x, y = batch_of(replica, case.replica_batch, places)
            for some, labels in zip(x.tensor_split(case.chunks), y.tensor_split(case.chunks), strict=True):
                (Classification(0.0)(module, some, labels, 0) / case.chunks / replicas).backward()
        state.update(case.replica_batch)
    return module


def worst_difference(module: "Network", case: "Case", places: int, place: tuple[int, int]) -> float:
    """Largest difference of a weight from this rank's share of those trained on one rank, relative, by norms.

    place: shard and stage.
    """
    from hpcai.models.tensor_part import share
    from hpcai.opcount.stages import parts_of

    shard, stage = place
    divided = parts_of(GRAPHS[places], case.cut, shard)[stage].divided
    expected = dict(on_one_rank(case, places).named_parameters())
    worst = 0.0
    for name, value in module.named_parameters():
        layer = name.rpartition(".")[0]
        whole = expected[f"{module.tied[layer].weights if layer in module.tied else layer}.weight"]
        own = share(whole, divided.get(layer), shard, case.split.shards)
        worst = max(worst, float((value - own).norm() / own.norm()))
    return worst


@pytest.mark.parametrize(
    ("ranks", "places"),
    [
        pytest.param(2, SHORT, marks=pytest.mark.parallel(2)),
        pytest.param(2, LONG, marks=pytest.mark.parallel(2)),
        pytest.param(4, SHORT, marks=[pytest.mark.parallel(4), EXHAUSTIVE]),
    ],
)
def test_weights_equal_those_of_one_rank_and_copies_are_the_same_bits(ranks: int, places: int) -> None:
    """After steps with clipped gradients, in fp32; a changed bit of one copy is found."""
    import torch
    from mpi4py import MPI

    from hpcai.comm.grid import split
    from hpcai.comm.rendezvous import process_group
    from hpcai.train.data_parallel import differs_from_others
    from hpcai.train.objective import Classification
    from hpcai.training.assembly import model_of
    from hpcai.training.execution import execution_of, share_numbers

    device, comm = torch.device("cpu"), MPI.COMM_WORLD
    for word in SPLITS[ranks]:
        case = case_of(word, ranks)
        group = split(comm, 1, ranks, "row", case.split)
        assert group is not None
        with process_group(group, "localhost", device):
            module = model_of(case, group, device, GRAPHS[places])
            execution, state = execution_of(case, group, device, module, (places, SYMBOLS)), state_of(module)
            share_numbers(state, execution, module, group, device)
            x, y = batch_of(group.place.replica, case.replica_batch, places)
            for _ in range(STEPS):
                execution.step(Classification(0.0), state, x, y, 0)
                state.update(len(y))
            assert worst_difference(module, case, places, (group.place.shard, group.place.stage)) <= ROUNDING, word
            assert not comm.allreduce(differs_from_others(module, group)), word
            logits = execution.network.eval()(x)
            assert logits.shape == (len(y), places, SYMBOLS), word
            if "output" in module.tied:
                module.get_submodule("output").weight.data[3, 5] += 1e-5
            found = comm.allgather(differs_from_others(module, group))
            assert found == [member // (ranks // case.split.stages) == case.split.stages - 1 for member in range(ranks)]
        group.free()

"""Stages of a pipeline: where a network is cut, what crosses, and that the stages together are the network."""

from dataclasses import replace
from itertools import combinations, pairwise

import pytest
import torch

from hpcai import networks, opcount
from hpcai.errors import InputError
from hpcai.estimate.exchanged import tied_bytes
from hpcai.inputfile.split import Cut, Place, Split, chunks_of, parsed
from hpcai.models.module import Network
from hpcai.models.module import build as build_module
from hpcai.models.tensor_part import build_part
from hpcai.networks.decoder import Decoder, decoder
from hpcai.networks.graph import Graph, Layer
from hpcai.networks.layers import Add, Conv, Dense, GlobalPool, Input, Received, Relu
from hpcai.networks.stages import Sent, Tied, crossing, received_by, stage_graph, tied
from hpcai.opcount.stages import (
    SLACK,
    operations_of,
    parameters_of_a_rank,
    parts_of,
    sent_values,
    stages_of,
    tied_of,
    tied_values,
)
from hpcai.train.pipeline import bounds_of

RESNETS = [networks.build("resnet8", (28, 28), 1, 10), networks.build("resnet50", (64, 64), 3, 100)]
MANY = 10**9  # samples of a micro-batch, with which the parameters take no time
LONG = Graph(
    (
        Layer("image", Input((3, 8, 8))),
        Layer("first", Conv(4, (3, 3), padding=(1, 1)), ("image",)),
        Layer("second", Conv(4, (3, 3), padding=(1, 1)), ("first",)),
        Layer("third", Conv(4, (3, 3), padding=(1, 1)), ("second",)),
        Layer("add", Add(), ("third", "first")),
        Layer("relu", Relu(), ("add",)),
        Layer("fourth", Conv(4, (3, 3), padding=(1, 1)), ("relu",)),
        Layer("pool", GlobalPool(), ("fourth",)),
        Layer("dense", Dense(5), ("pool",)),
    )
)


def through(stages: list[Network], images: torch.Tensor) -> torch.Tensor:
    given = (images,)
    for stage in stages:
        output = stage(*given)
        given = output if isinstance(output, tuple) else (output,)
    return given[0]


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("graph", [*RESNETS, LONG], ids=["resnet8", "resnet50", "long"])
def test_the_stages_in_turn_compute_what_the_network_computes(graph: Graph, stages: int) -> None:
    if graph is LONG and stages > 5:
        return
    modules = [build_part(graph, part, 7).eval() for part in parts_of(graph, Cut(stages), 0)]
    images = torch.randn(2, *graph.shapes["image"], generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        assert torch.equal(through(modules, images), build_module(graph, 7).eval()(images))
    names = [name for module in modules for name, _ in module.named_parameters()]
    assert names == [name for name, _ in build_module(graph, 7).named_parameters()]


@pytest.mark.parametrize("stages", [2, 3, 4, 7])
@pytest.mark.parametrize("graph", RESNETS, ids=["resnet8", "resnet50"])
def test_the_stages_divide_the_operations(graph: Graph, stages: int) -> None:
    operations = operations_of(graph, Cut(stages))
    assert sum(operations) == opcount.count(graph, "model").total and min(operations) > 0
    assert parameters_of_a_rank(graph, Cut(stages)) == sum(graph.parameters.values()) / stages


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_no_cut_has_a_lighter_heaviest_stage_or_sends_less(stages: int) -> None:
    """Of all cuts of a small network."""
    graph = RESNETS[0]
    layers = len(graph.layers)
    costs = [0, *(row.forward + row.backward for row in opcount.count(graph, "model").layers)]
    cuts = [(0, *places, layers) for places in combinations(range(1, layers), stages - 1)]
    heaviest = {cut: max(sum(costs[begin:end]) for begin, end in pairwise(cut)) for cut in cuts}
    least = min(heaviest.values())
    sent = {
        cut: sum(2 * torch.Size(graph.shapes[name]).numel() for place in cut[1:-1] for name in crossing(graph, place))
        for cut in cuts
        if heaviest[cut] <= least * (1 + SLACK) and all(sum(costs[b:e]) for b, e in pairwise(cut))
    }
    assert max(operations_of(graph, Cut(stages, 1, MANY))) <= least * (1 + SLACK)
    assert sent_values(graph, Cut(stages, 1, MANY)) == min(sent.values())


@pytest.mark.parametrize("stages", [2, 3, 4, 5])
def test_no_cut_into_stages_with_weights_has_a_lighter_heaviest_stage(stages: int) -> None:
    """Of all cuts of a decoder whose attention, which has no weights, is most of its operations."""
    graph = decoder(Decoder(blocks=1, width=64), 4096, 256)
    rows, layers = opcount.count(graph, "model").layers, len(graph.layers)
    costs = [0, *(row.forward + row.backward for row in rows)]
    weighted = [False, *(row.forward > 0 and row.name in graph.weights for row in rows)]
    cuts = [(0, *places, layers) for places in combinations(range(1, layers), stages - 1)]
    allowed = [[*pairwise(cut)] for cut in cuts if all(any(weighted[b:e]) for b, e in pairwise(cut))]
    least = min(max(sum(costs[b:e]) for b, e in pairs) for pairs in allowed)
    assert least <= max(operations_of(graph, Cut(stages, 1, MANY))) <= least * (1 + SLACK)


def test_parameters_weigh_more_with_fewer_samples() -> None:
    """The last layers have most parameters, so that the last stage has fewer operations."""
    few, many = (operations_of(RESNETS[1], Cut(2, 1, samples)) for samples in (2, 32))
    assert few[1] < many[1] and few[0] > many[0]


def test_an_output_that_a_later_stage_reads_passes_through_the_stages_between() -> None:
    first, second, third = stage_graph(LONG, 0, 2), stage_graph(LONG, 2, 3), stage_graph(LONG, 3, 9)
    assert first.layers[-1] == Layer("sent", Sent(), ("first",)) and not received_by(first)
    assert [layer.name for layer in second.layers] == ["first", "second", "sent"]
    assert second.layers[-1].inputs == ("first", "second")
    assert received_by(third) == (Received((4, 8, 8), True),) * 2
    assert not received_by(stage_graph(LONG, 1, 9))[0].trained


def test_the_first_layer_of_a_stage_that_shares_weights_of_an_earlier_one_has_a_copy() -> None:
    *before, fourth, pool, dense = LONG.layers
    fourth = replace(fourth, shares="third")
    fifth, pool = replace(fourth, name="fifth", inputs=("fourth",)), replace(pool, inputs=("fifth",))
    graph = Graph((*before, fourth, fifth, pool, dense))
    first, last = stages = stage_graph(graph, 0, 6), stage_graph(graph, 6, 10)
    assert [(layer.name, layer.shares) for layer in last.layers[1:3]] == [("fourth", ""), ("fifth", "fourth")]
    assert tied(graph, stages) == (Tied("third", {0: "third", 1: "fourth"}),)
    held = sum(sum(stage.parameters.values()) for stage in stages)
    assert held == sum(graph.parameters.values()) + graph.parameters["third"]
    assert not tied(graph, (graph,)) and first.parameters["third"] == last.parameters["fourth"]


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_the_stages_of_a_decoder_have_its_tied_weights_twice(stages: int) -> None:
    graph, cut = decoder(Decoder(2, 64), 12, 256), Cut(stages, 1, 2)
    parts = parts_of(graph, cut, 0)
    modules = [build_part(graph, part, 7).eval() for part in parts]
    symbols = torch.randint(0, 256, (2, 1, 1, 12), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        assert torch.equal(through(modules, symbols), build_module(graph, 7).eval()(symbols))
    assert tied_of(graph, cut) == (Tied("embedding", {0: "embedding", stages - 1: "output"}),)
    assert torch.equal(modules[0].embedding.weight, modules[-1].output.weight)
    weights = graph.parameters["embedding"]
    assert tied_values(graph, cut) == 2 * weights and tied_values(graph, Cut(stages, 2, 2)) == 4 * weights
    assert tied_values(graph, Cut()) == 0
    assert parameters_of_a_rank(graph, cut) == (sum(graph.parameters.values()) + weights) / stages
    assert sum(operations_of(graph, cut)) == opcount.count(graph, "model").total
    assert [tied_bytes(graph, part.graph, 4) for part in parts] == [8 * weights, *[0] * (stages - 2), 8 * weights]


@pytest.mark.parametrize("samples", [1, 4])
@pytest.mark.parametrize("places", [32, 192, 4096])
def test_every_stage_has_a_product_with_weights(places: int, samples: int) -> None:
    """Attention, which has none, may take longer than all else."""
    graph = decoder(Decoder(blocks=2, width=64), places, 256)
    for stages in range(1, 10):
        for stage in stages_of(graph, Cut(stages, 1, samples)):
            assert [row for row in opcount.count(stage, "model").layers if row.forward and row.name in stage.weights]
    with pytest.raises(InputError, match="9 layers have operations and weights, too few for 10 stages"):
        stages_of(graph, Cut(10))


def test_more_stages_than_layers_with_operations_are_refused() -> None:
    assert len(stages_of(LONG, Cut(5))) == 5
    with pytest.raises(InputError, match="5 layers have operations and weights, too few for 6 stages; allowed: 1 to 5"):
        stages_of(LONG, Cut(6))


@pytest.mark.parametrize("shards", [2, 3])
def test_shards_of_stages_divide_operations_and_parameters(shards: int) -> None:
    graph = RESNETS[1]
    total = parameters = 0
    for shard in range(shards):
        for part in parts_of(graph, Cut(3, shards), shard):
            rows = opcount.count(part.graph, "model").layers
            total += sum(row.forward + row.backward for row in rows if shard == 0 or row.name not in part.replicated)
            parameters += sum(part.graph.parameters.values())
    assert total == opcount.count(graph, "model").total
    assert parameters_of_a_rank(graph, Cut(3, shards)) == parameters / (3 * shards)


def test_sent_values_count_whole_outputs_on_each_shard() -> None:
    """Of two shards each sends its half of the output, in both directions; a whole output goes twice."""
    assert sent_values(LONG, Cut(2)) == 2 * 2 * 4 * 64
    assert sent_values(LONG, Cut(2, 2)) == 2 * 2 * 4 * 64
    assert sent_values(LONG, Cut(2, 6)) == 6 * 2 * 2 * 4 * 64


@pytest.mark.parametrize(
    ("samples", "chunks", "sizes"),
    [(32, 8, [4] * 8), (10, 8, [2] * 5), (11, 4, [2, 3, 3, 3]), (7, 8, [2, 2, 3]), (1, 8, [1]), (3, 4, [3])],
)
def test_micro_batches_have_two_samples_and_nearly_equal_sizes(samples: int, chunks: int, sizes: list[int]) -> None:
    bounds = bounds_of(samples, chunks)
    assert sorted(end - begin for begin, end in bounds) == sizes
    assert bounds[0][0] == 0 and bounds[-1][1] == samples
    assert all(end == begin for (_, end), (begin, _) in pairwise(bounds))


def test_places_are_shards_first_then_replicas_then_stages() -> None:
    divided = Split(2, 3, 2)
    places = [divided.place(member) for member in range(12)]
    assert places[:4] == [Place(0, 0, 0), Place(0, 1, 0), Place(0, 2, 0), Place(1, 0, 0)]
    assert places[6] == Place(0, 0, 1) and [*map(divided.member, places)] == [*range(12)]


def test_words_of_splits() -> None:
    assert parsed("2x1x2") == Split(2, 1, 2)
    assert [parsed(word) for word in ("2x2", "0x1x2", "2x1x2x1", "ax1x1", "2X1X2", "02x1x1", "")] == [None] * 7


@pytest.mark.parametrize(
    ("settings", "chunks"),
    [
        ({"PARALLEL": "pipeline", "DEGREE": 2, "BATCH": 8}, 8),
        ({"PARALLEL": "pipeline", "DEGREE": 2, "BATCH": 3}, 3),
        ({"PARALLEL": "pipeline", "DEGREE": 4, "BATCH": 5}, 10),
        ({"PARALLEL": "pipeline", "DEGREE": 2, "BATCH": 8, "CHUNKS": 4}, 4),
        ({"PARALLEL": "mixed", "SPLIT": "2x1x2", "DEGREE": 4, "BATCH": 8}, 8),
        ({"PARALLEL": "data", "DEGREE": 4, "BATCH": 8, "CHUNKS": 0}, 1),
    ],
)
def test_chunks_are_four_a_stage_or_as_many_as_divide_the_batch(settings: dict[str, object], chunks: int) -> None:
    assert chunks_of(settings) == chunks

"""Tensor parallelism: the layers of a rank, and what the ranks exchange by formula."""

from itertools import pairwise

import pytest

from hpcai import networks, opcount
from hpcai.inputfile import parse
from hpcai.inputfile.split import Cut, Split
from hpcai.networks.collective_layers import AllGather, AllReduce, Divide, ReduceScatter, channels_of
from hpcai.networks.graph import Graph, Layer
from hpcai.networks.layers import BatchNorm, Conv, Dense, GlobalPool, Input, Relu
from hpcai.networks.tensor_parallel import TensorPart, tensor_part
from hpcai.opcount.exchange import exchanged_values
from hpcai.preflight.parallel_modes import parallel_refusal

SMALL, LARGE = (("resnet8", (28, 28), 1, 10), ("resnet18", (32, 32), 3, 10)), (("resnet50", (64, 64), 3, 100),)
NETWORKS = [networks.build(*each) for each in SMALL + LARGE]


def parts(graph: Graph, ranks: int) -> list[TensorPart]:
    return [tensor_part(graph, rank, ranks) for rank in range(ranks)]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6, 20])
@pytest.mark.parametrize("graph", NETWORKS, ids=["resnet8", "resnet18", "resnet50"])
def test_the_ranks_divide_operations_and_parameters(graph: Graph, ranks: int) -> None:
    divided = parts(graph, ranks)
    operations = [
        sum(layer.forward + layer.backward for layer in opcount.count(part.graph, "model").layers if own(part, layer))
        for part in divided
    ]
    assert sum(operations) == opcount.count(graph, "model").total
    parameters = [sum(n for name, n in part.graph.parameters.items() if own(part, name)) for part in divided]
    assert sum(parameters) == sum(graph.parameters.values())
    assert {layer.name for layer in graph.layers} <= {layer.name for layer in divided[0].graph.layers}


def own(part: TensorPart, layer: object) -> bool:
    """Whether a layer counts on this rank."""
    return part.rank == 0 or getattr(layer, "name", layer) not in part.replicated


def test_one_rank_has_the_whole_network() -> None:
    assert tensor_part(NETWORKS[0], 0, 1).graph == NETWORKS[0]


def test_shards_differ_by_one_channel_at_most() -> None:
    for channels in range(1, 40):
        for ranks in range(1, channels + 1):
            bounds = [channels_of(rank, ranks, channels) for rank in range(ranks)]
            assert bounds[0][0] == 0 and bounds[-1][1] == channels
            assert all(end == first for (_, end), (first, _) in pairwise(bounds))
            assert {end - first for first, end in bounds} <= {channels // ranks, -(-channels // ranks)}


WIDE = Graph(
    (
        Layer("image", Input((3, 8, 8))),
        Layer("narrow", Conv(8, (1, 1)), ("image",)),
        Layer("norm", BatchNorm(), ("narrow",)),
        Layer("relu", Relu(), ("norm",)),
        Layer("wide", Conv(32, (1, 1)), ("relu",)),
        Layer("again", Conv(8, (1, 1)), ("wide",)),
        Layer("pool", GlobalPool(), ("again",)),
        Layer("dense", Dense(5), ("pool",)),
    )
)


def collectives(graph: Graph, ranks: int) -> dict[str, type]:
    found = (ReduceScatter, AllGather, AllReduce, Divide)
    layers = tensor_part(graph, 0, ranks).graph.layers
    return {each.name: type(each.op) for each in layers if isinstance(each.op, found)}


def test_a_layer_gathers_its_input_or_scatters_its_output_by_bytes() -> None:
    assert collectives(WIDE, 2) == {
        "relu_gathered": AllGather, "again_sum": ReduceScatter, "pool_gathered": AllGather,
    }  # fmt: skip


def test_narrow_layers_are_replicated() -> None:
    found = tensor_part(WIDE, 0, 6)
    assert found.replicated == {"image", "dense"} and collectives(WIDE, 6)["pool_whole"] is AllGather
    found = tensor_part(WIDE, 0, 16)
    assert {"narrow", "norm", "relu", "pool", "dense"} <= found.replicated
    assert collectives(WIDE, 16) == {"relu_divided": Divide, "again_sum": AllReduce}


def test_exchanged_values_are_those_of_the_collectives() -> None:
    """Forward and backward: 8 x 64 gathered, 8 x 64 scattered, 8 gathered, of which a rank sends half."""
    assert exchanged_values(WIDE, Cut(1, 2)) == 2 * (512 + 512 + 8) / 2
    assert exchanged_values(WIDE, Cut()) == 0


def test_a_strided_product_of_few_channels_gathers_its_input() -> None:
    """Of shards of fewer than 8 channels oneDNN damages the heap."""
    narrow = collectives(NETWORKS[0], 3)
    assert narrow["stage1_block1_relu2_gathered"] is AllGather and "stage2_block1_shortcut_conv_sum" not in narrow
    assert collectives(NETWORKS[0], 2)["stage2_block1_shortcut_conv_sum"] is ReduceScatter


def test_members_of_a_replica_are_consecutive() -> None:
    places = [Split(2, 3).place(member) for member in range(6)]
    assert [(each.replica, each.shard) for each in places] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


TEXT = "a\nb\n[{section}]\n{data} DATASET\n1 GROUPS\n2 DEGREE\n8 BATCH\ntensor PARALLEL\n{more}"


@pytest.mark.parametrize(
    ("section", "more", "reason"),
    [
        ("ensemble", "", ""),
        ("ensemble", "int8 PRECISION\n", "PRECISION int8: bytes have one scale a tensor"),
        ("ensemble", "lars OPTIMISER\n", ""),
        ("ensemble", "lamb OPTIMISER\n", ""),
        ("ensemble", "torch COMPILE\n", "COMPILE torch: layers wait for other ranks"),
        ("weather", "", "[weather]: its networks are not divided; allowed: PARALLEL data"),
        ("nas", "", "[nas]: its networks are not divided; allowed: PARALLEL data"),
    ],
)
def test_what_cannot_be_divided_is_refused_by_name_and_reason(section: str, more: str, reason: str) -> None:
    data = "generated" if section == "weather" else "fashion"
    (case, *_) = parse(TEXT.format(section=section, data=data, more=more)).cases(2)
    refused = parallel_refusal(case)
    assert refused.startswith(f"PARALLEL tensor with {reason}") if reason else refused == ""

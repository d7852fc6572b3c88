"""Morphisms change graphs and weights and preserve functions."""

import random

import pytest
import torch
from msgspec import ValidationError, convert, json, to_builtins
from random_graphs import CLOSE, chain, deviation, drawn, output, random_images, trained_a_little
from sampled_parameters import fast, one_in

from hpcai import networks
from hpcai.errors import InputError
from hpcai.networks import morphism
from hpcai.networks.graph import Graph, Layer
from hpcai.networks.layers import Conv, Input, Relu
from hpcai.networks.morphism import Deepen, Kernel, Morphism, Skip, Widen
from hpcai.networks.spaces import spaces
from hpcai.search.channel_statistics import upstream
from hpcai.search.neighbours import Neighbourhood
from hpcai.search.weight_inheritance import inherit


@pytest.mark.parametrize("seed", fast(range(8), range(20)))
def test_each_of_up_to_20_morphs_of_random_graphs_preserves_the_function(seed: int) -> None:
    kinds = set()
    first = None
    for change, parent, state, child, weights in chain(seed, 20):
        x = random_images(parent)
        before = output(parent, state, x)
        first = before if first is None else first
        after = output(child, weights, x)
        assert deviation(after, before) < CLOSE, change
        assert deviation(after, first) < CLOSE
        kinds.add(change.operation)
    assert len(kinds) >= 3


@pytest.mark.parametrize("name", one_in(2, ["resnet8", "resnet50"]))
@pytest.mark.parametrize("kind", [*morphism.KINDS])
def test_residual_networks_keep_their_function(name: str, kind: str) -> None:
    graph = networks.build(name, (32, 32), 3, 10, "v1")
    state, x = trained_a_little(graph, 1), random_images(graph, 2)
    before, dice = output(graph, state, x), random.Random(3)
    for seed in range(2):
        change = drawn(graph, kind, dice)
        assert change is not None
        assert deviation(output(change.apply(graph), inherit(graph, change, state, {}, seed), x), before) < CLOSE


def test_weights_that_a_morph_does_not_touch_are_the_parents() -> None:
    for change, _, state, _, weights in chain(5, 12):
        assert state.keys() <= weights.keys()
        if isinstance(change, Deepen | Skip):
            assert all(torch.equal(weights[name], tensor) for name, tensor in state.items())
        if isinstance(change, Kernel):
            name = f"{change.layer}.weight"
            assert weights[name].sum() == pytest.approx(float(state[name].sum()))


def test_a_wrong_weight_is_detected() -> None:
    graph = networks.build("resnet8", (16, 16), 1, 10, "v1")
    state, x, change = trained_a_little(graph, 1), random_images(graph), Widen("stem_conv", 20)
    wrong = inherit(graph, change, state, {}, 1)
    wrong["dense.weight"] = wrong["dense.weight"].clone()
    wrong["dense.weight"][0, 0] *= 1 + 1e-6
    assert deviation(output(change.apply(graph), wrong, x), output(graph, state, x)) > CLOSE


def test_morphisms_are_the_same_after_json() -> None:
    for change, *_ in chain(3, 20):
        assert json.decode(json.encode(change), type=Morphism) == change
        assert to_builtins(change)["operation"] == change.operation


def test_an_unknown_kind_of_morphism_is_refused_by_name() -> None:
    neighbourhood = Neighbourhood(networks.build("resnet8", (16, 16), 1, 10, "v1"))
    for kind in morphism.KINDS:
        change = neighbourhood.of_kind(kind, random.Random(1))
        assert change is not None and change.operation == kind
    with pytest.raises(InputError, match=r"unknown morphism 'shrink'; allowed are deepen, widen, kernel, skip"):
        neighbourhood.of_kind("shrink", random.Random(1))


@pytest.mark.parametrize(
    "written",
    [
        {"operation": "shrink"},
        {"layer": "stem_conv", "channels": 20},
        {"operation": "widen", "layer": "stem_conv"},
        {"operation": "widen", "layer": "stem_conv", "channels": 20.0},
        {"operation": "widen", "layer": "stem_conv", "channels": True},
        {"operation": "widen", "layer": "", "channels": 20},
        {"operation": "kernel", "layer": "stem_conv", "size": 4},
        {"operation": "skip", "start": "stem_relu", "end": "stem_relu", "more": 1},
    ],
    ids=str,
)
def test_an_invalid_morphism_in_json_is_refused(written: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        convert(written, Morphism)


@pytest.mark.parametrize(
    "change",
    [
        Deepen("stem_norm", 3),
        Deepen("nowhere", 3),
        Deepen("pool", 3),
        Widen("dense", 20),
        Widen("stem_conv", 16),
        Widen("stem_relu", 32),
        Kernel("stage1_block1_conv1", 4),
        Kernel("stage1_block1_conv1", 3),
        Kernel("stage2_block1_shortcut_conv", 5),
        Skip("stage3_block1_relu2", "stage1_block1_add"),
        Skip("stem_relu", "stem_relu"),
        Skip("stage1_block1_norm2", "stage1_block1_add"),
        Skip("pool", "stage3_block1_add"),
    ],
    ids=str,
)
def test_an_illegal_morphism_is_reported(change: Morphism) -> None:
    with pytest.raises(InputError, match=change.operation):
        change.apply(networks.build("resnet8", (16, 16), 1, 10, "v1"))


def test_a_grouped_convolution_is_not_widened() -> None:
    block = (Layer("conv", Conv(4, (3, 3), padding=(1, 1), groups=2), ("first",)), Layer("relu", Relu(), ("conv",)))
    graph = Graph((Layer("image", Input((2, 8, 8))), Layer("first", Conv(4, (3, 3)), ("image",)), *block))
    assert not spaces(graph)


def test_upstream_contains_the_layers_that_a_layer_needs() -> None:
    graph = networks.build("resnet8", (16, 16), 1, 10, "v1")
    part = upstream(graph, "stage2_block1_shortcut_norm")
    assert part.layers[-1].name == "stage2_block1_shortcut_norm"
    assert "stage2_block1_conv1" not in part.shapes

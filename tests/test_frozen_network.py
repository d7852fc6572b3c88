"""The second implementations of networks: layers, forward pass and initial weights, against those that train."""

import random
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from graphs import images_of, random_graph
from mpi4py import MPI
from random_graphs import chain, random_images, some_graph, trained_a_little
from sampled_parameters import fast
from tiny import CPU

from hpcai import networks
from hpcai.formulas.precision import PRECISIONS
from hpcai.frozen import residual_networks
from hpcai.frozen.initial_weights import standard_errors
from hpcai.frozen.layer_shapes import multiplications, parameters, shapes
from hpcai.frozen.network import forward
from hpcai.inputfile import Case, parse
from hpcai.models.module import Network, build
from hpcai.networks.graph import Graph
from hpcai.opcount import count
from hpcai.preflight.network_check import NOT_COMPUTED, check_network
from hpcai.training.assembly import initial_module

IMAGES = ((8, 8), (64, 64), (65, 80), (224, 224))


def computed(graph: Graph) -> list[Any]:
    return [layer for layer in graph.layers if layer.op.kind not in NOT_COMPUTED]


def numbers(state: Any) -> dict[str, Any]:
    return {name: value.double().numpy().copy() for name, value in state.items() if value.is_floating_point()}


@pytest.mark.parametrize("name", networks.NAMES)
@pytest.mark.parametrize("variant", networks.VARIANTS)
def test_every_network_has_a_second_description(name: str, variant: str) -> None:
    assert residual_networks.known(name)
    for image in IMAGES:
        graph, layers = networks.build(name, image, 3, 7, variant), residual_networks.layers(name, variant, image, 7)
        assert [(layer.name, layer.op.kind, layer.inputs) for layer in layers] == [
            (layer.name, layer.op.kind, layer.inputs) for layer in computed(graph)
        ]
        for one, other in zip(layers, computed(graph), strict=True):
            fields = [field for field in one.op._fields if hasattr(other.op, field)]
            assert [getattr(one.op, field) for field in fields] == [getattr(other.op, field) for field in fields]
        assert shapes(layers, (3, *image)) == {n: s for n, s in graph.shapes.items() if n != "softmax"}


def test_other_networks_have_none() -> None:
    assert not any(map(residual_networks.known, (*networks.DETECTING, "resnet", "resnet7", "resnet50x")))


def agree(graph: Graph, state: Any, images: torch.Tensor) -> None:
    network = Network(graph).to_empty(device="cpu").double()
    network.load_state_dict(state)
    values, x = numbers(state), images.double()
    assert {name: value.shape for name, value in values.items()} == parameters(
        computed(graph), graph.shapes["image"]
    )
    for training in (True, False):
        found = forward(computed(graph), values, x.numpy(), training)
        logits = network.train(training)(x).detach().numpy()
        last = computed(graph)[-1].name
        assert np.allclose(found.outputs[last], logits, rtol=1e-9, atol=1e-9 * np.abs(logits).max())
        left = numbers(network.state_dict())
        assert all(np.allclose(value, left[name], rtol=1e-9) for name, value in found.statistics.items())
        values = {**values, **found.statistics}


@pytest.mark.parametrize("seed", range(12))
def test_the_forward_pass_of_random_networks(seed: int) -> None:
    graph = random_graph(seed, grouped=True)
    agree(graph, dict(build(graph, seed).double().state_dict()), images_of(graph))


@pytest.mark.parametrize("seed", range(4))
def test_the_forward_pass_of_morphed_networks(seed: int) -> None:
    for _, _, _, child, weights in chain(seed, 5):
        agree(child, weights, random_images(child))


def test_multiplications_are_half_of_the_operations() -> None:
    for seed in range(5):
        graph = some_graph(random.Random(seed))
        assert 2 * multiplications(computed(graph), graph.shapes["image"]) == count(graph, "model").forward


def worst(graph: Graph, state: Any) -> float:
    return max(value for _, value in standard_errors(computed(graph), graph.shapes["image"], numbers(state)))


@pytest.mark.slow
def test_initial_weights_are_within_the_limit_and_others_are_not() -> None:
    graph = networks.build("resnet8", (8, 8), 3, 10)
    for seed in range(200):
        assert worst(graph, build(graph, seed).state_dict()) < 6
    assert worst(graph, trained_a_little(graph, 1)) == np.inf
    for factor in (0.5, 0.97, 1.03, 2.0):
        state = build(graph, 1).state_dict()
        for value in state.values():
            if value.ndim > 1:
                value.mul_(factor)
        assert worst(graph, state) > 8
    state = build(graph, 1).state_dict()
    state["dense.weight"][3, 3] = np.nan
    assert worst(graph, state) == np.inf


def case_of(**settings: Any) -> Case:
    given = {"DATASET": "generated", "RESOLUTION": 8, "CLASSES": 10, "SAMPLES": 64, "GROUPS": 1, "DEGREE": 1}
    lines = [f"{value} {key}" for key, value in {**given, "BATCH": 8, **settings}.items()]
    (case,) = parse("\n".join(["first", "second", "[ensemble]", *lines]).encode(), (), None).cases(1)
    return case


@pytest.mark.parametrize(
    ("precision", "kernels"), fast([("fp32", "vendor"), ("bf16", "vendor")], product(PRECISIONS, ("vendor", "custom")))
)
def test_an_honest_network_is_within_the_bounds(precision: str, kernels: str) -> None:
    from hpcai.train.precision import refusal, switched

    if refusal(precision, CPU):
        pytest.skip(f"NO {precision} ON THIS DEVICE")
    for name in ("resnet8", "resnet18"):
        case = case_of(PRECISION=precision, KERNELS=kernels, NETWORK=name)
        graph = networks.for_data(case, (3, 8, 8), 10)
        with switched(precision):
            module = initial_module(case, graph, CPU)
            before = {key: value.clone() for key, value in module.state_dict().items()}
            found = check_network(case, MPI.COMM_SELF, module, graph, (3, 8, 8), 10)
        assert found.outputs is not None and found.outputs.value < 0.5
        assert found.weights.value < 6
        assert all(torch.equal(value, before[key]) for key, value in module.state_dict().items())

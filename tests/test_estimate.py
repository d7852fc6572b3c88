"""Estimates of memory against what torch really keeps."""

import pytest
import torch
from graphs import random_graph
from torch.nn import functional

from hpcai.estimate import memory, seconds
from hpcai.models.module import build as build_module
from hpcai.networks import build

BATCH = 4


def saved_bytes(graph):
    """Bytes of distinct memory that torch saves for the backward pass, other than parameters, images and labels."""
    module = build_module(graph, 0)
    images = torch.randn(BATCH, *graph.shapes["image"])
    labels = torch.zeros(BATCH, dtype=torch.long)
    saved = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = functional.cross_entropy(module(images), labels)
    assert loss.requires_grad  # the graph, and all it saved, is still there
    for own in (images, labels, *module.parameters(), *module.buffers()):
        saved.pop(own.untyped_storage().data_ptr(), None)
    return sum(saved.values())


NETWORKS = [
    build("resnet8", (28, 28), 1, 10),
    build("resnet18", (72, 66), 3, 20),
    build("resnet50", (32, 24), 3, 10, "v1"),
    *(random_graph(seed, grouped=True) for seed in range(12)),
]


@pytest.mark.parametrize("graph", NETWORKS)
def test_activations_are_what_torch_saves(graph):
    loss = 4  # bytes: one more number than the network keeps
    assert memory(graph, BATCH)["activations"] == pytest.approx(saved_bytes(graph) - loss, rel=1e-4)


def test_weights_are_parameters_and_running_statistics():
    graph = build("resnet18", (28, 28), 1, 10)
    module = build_module(graph, 0)
    held = [*module.parameters(), *(buffer for buffer in module.buffers() if buffer.is_floating_point())]
    estimate = memory(graph, BATCH)
    assert estimate["weights"] == sum(tensor.nbytes for tensor in held)
    assert estimate["gradients"] == sum(parameter.nbytes for parameter in module.parameters())
    assert estimate["inputs"] == BATCH * (28 * 28 * 4 + 8)


def test_what_the_options_change():
    graph = build("resnet8", (28, 28), 1, 10)
    plain, adam, halves, pair = (
        memory(graph, BATCH),
        memory(graph, BATCH, optimiser_slots=2),
        memory(graph, BATCH, bytes_per_element=2),
        memory(graph, BATCH, ranks=2),
    )
    assert adam["optimiser"] == 2 * plain["optimiser"] == 2 * plain["gradients"]
    assert 2 * halves["weights"] == plain["weights"]
    assert "buckets" not in plain
    assert pair["buckets"] == plain["gradients"]
    assert pair["total"] == plain["total"] + plain["gradients"]
    assert plain["total"] == sum(value for name, value in plain.items() if name != "total")
    assert memory(graph, 2 * BATCH)["inputs"] == 2 * plain["inputs"]


def test_seconds():
    assert seconds(6e9, 2e9) == 3.0

"""A child continues from its parent's weights: copies of channels diverge in training, and the loss does not jump."""

import random

import pytest
import torch
from random_graphs import drawn, output, random_images, trained_a_little
from sampled_parameters import one_in
from torch import Tensor, nn

from hpcai import networks
from hpcai.models.module import Network, build
from hpcai.networks import morphism
from hpcai.networks.graph import Graph
from hpcai.networks.morphism import Deepen, Widen
from hpcai.search.channel_statistics import statistics
from hpcai.search.weight_inheritance import NOISE, State, inherit


def test_copies_of_a_channel_are_read_with_different_weights() -> None:
    graph = networks.build("resnet8", (16, 16), 1, 10, "v1")
    state = trained_a_little(graph, 1)
    weights = inherit(graph, Widen("stage1_block1_conv1", 32), state, {}, 1)
    made, read = weights["stage1_block1_conv1.weight"], weights["stage1_block1_conv2.weight"]
    pairs = [(i, j) for i in range(16) for j in range(16, 32) if torch.equal(made[i], made[j])]
    assert len(pairs) == 16
    for one, other in pairs:
        ratio = (read[:, other] / read[:, one]).mean()
        assert 1e-4 < abs(ratio - 1) < 3 * NOISE


@pytest.fixture(scope="module")
def trained() -> tuple[Graph, State, Tensor, Tensor]:
    """A small network that has learnt, in training mode, and its training data."""
    graph = networks.build("resnet8", (10, 10), 1, 3, "v1")
    network = build(graph, 1).double()
    x, y = random_images(graph, 24), torch.arange(24) % 3
    x += y.reshape(-1, 1, 1, 1)
    optimiser = torch.optim.SGD(network.parameters(), 0.05, momentum=0.9)
    for _ in range(30):
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(x), y).backward()
        optimiser.step()
    for _ in range(60):  # the running averages converge
        network(x)
    state = {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
    return graph, state, x, y


@pytest.mark.slow
@pytest.mark.parametrize("kind", one_in(4, morphism.KINDS))
def test_training_continues_from_the_parents_loss(kind: str, trained: tuple[Graph, State, Tensor, Tensor]) -> None:
    graph, state, x, y = trained
    before = float(nn.functional.cross_entropy(output(graph, state, x, training=True), y).detach())
    dice = random.Random(7)
    for seed in range(4):
        change = drawn(graph, kind, dice)
        assert change is not None
        measured = statistics(graph, state, change.after, x) if isinstance(change, Deepen) else {}
        child = Network(change.apply(graph)).to_empty(device="cpu").double()
        child.load_state_dict(inherit(graph, change, state, measured, seed))
        optimiser = torch.optim.SGD(child.parameters(), 0.01, momentum=0.9)
        losses = []
        for _ in range(15):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(child(x), y)
            loss.backward()
            optimiser.step()
            losses.append(float(loss.detach()))
        assert losses[0] == pytest.approx(before, rel=0.02, abs=1e-3)
        assert losses[-1] < losses[0]


def test_a_block_without_statistics_breaks_the_training(trained: tuple[Graph, State, Tensor, Tensor]) -> None:
    graph, state, x, y = trained
    before = float(nn.functional.cross_entropy(output(graph, state, x, training=True), y).detach())
    change = Deepen("stage2_block1_relu2", 3)
    child, weights = change.apply(graph), inherit(graph, change, state, {}, 1)
    after = float(nn.functional.cross_entropy(output(child, weights, x, training=True), y).detach())
    assert abs(after - before) > 0.05 * before


def test_copies_of_a_channel_have_different_gradients(trained: tuple[Graph, State, Tensor, Tensor]) -> None:
    graph, state, x, y = trained
    change = Widen("stage1_block1_conv1", 32)
    child = Network(change.apply(graph)).to_empty(device="cpu").double()
    child.load_state_dict(inherit(graph, change, state, {}, 1))
    nn.functional.cross_entropy(child(x), y).backward()
    made = dict(child.named_parameters())["stage1_block1_conv1.weight"]
    pairs = [(i, j) for i in range(16) for j in range(16, 32) if torch.equal(made[i], made[j])]
    assert pairs
    assert made.grad is not None
    assert all(not torch.equal(made.grad[i], made.grad[j]) for i, j in pairs)

"""Operations counted on the executed modules: the same as the graph's count, and only what really ran."""

import pytest
import torch
from graphs import images_of, random_graph, small

from hpcai.models.executed import ExecutedCalls, count_executed
from hpcai.models.module import build as build_module
from hpcai.networks import build
from hpcai.opcount import count

GRAPHS = [build("resnet20", (28, 20), 1, 10), build("resnet50", (20, 20), 3, 7, "v1")]


@pytest.mark.parametrize("graph", [*GRAPHS, *(random_graph(seed, grouped=True) for seed in range(20))])
def test_executed_operations_equal_the_count_times_the_images(graph):
    module = build_module(graph, 0)
    executed = count_executed(module)
    for batch in (4, 3):
        module(images_of(graph, batch)).sum().backward()
    assert executed.operations == 7 * count(graph, "model").total


def test_only_training_is_counted_and_only_what_is_differentiated():
    graph = small()
    counted = count(graph, "model")
    module = build_module(graph, 0)
    executed = count_executed(module)
    module.eval()(images_of(graph))
    assert executed.operations == 0
    with torch.no_grad():
        module.train()(images_of(graph))
    assert executed.operations == 4 * counted.forward
    module.stem_conv.weight.requires_grad_(False)
    loss = module(images_of(graph)).sum()
    assert executed.operations == 2 * 4 * counted.forward
    loss.backward()
    frozen = counted.layers[0].forward
    assert executed.operations == 4 * (counted.forward + counted.total - frozen)
    executed.remove()
    module(images_of(graph)).sum().backward()
    assert executed.operations == 4 * (counted.forward + counted.total - frozen)


def test_calls_of_a_network_that_cannot_be_watched_are_worth_what_was_learnt():
    graph = small()
    counted, module = count(graph, "model"), build_module(graph, 0)
    calls = ExecutedCalls(module)
    calls.learn(module, images_of(graph)).sum().backward()
    assert calls.operations == 0
    loss = module(images_of(graph)).sum()
    calls.add(images_of(graph))
    assert calls.operations == 4 * counted.forward
    loss.backward()
    assert calls.operations == 4 * counted.total


def test_calls_credit_neither_a_backward_pass_that_is_missing_nor_one_that_runs_twice():
    graph = small()
    counted, module = count(graph, "model"), build_module(graph, 0)
    calls = ExecutedCalls(module)
    calls.learn(module, images_of(graph))
    for _ in range(2):
        loss = module(images_of(graph)).sum()
        calls.add(images_of(graph))
    loss.backward(retain_graph=True)
    loss.backward()
    assert calls.operations == 4 * (counted.forward + counted.total)


def test_a_shape_that_was_not_learnt_is_worth_nothing():
    graph = small()
    module = build_module(graph, 0)
    calls = ExecutedCalls(module)
    calls.learn(module, images_of(graph))
    other = images_of(graph, 3)
    loss = module(other).sum()
    calls.add(other)
    loss.backward()
    assert calls.operations == 0


def test_calls_credit_a_layer_only_if_the_gradient_of_its_weights_arrives():
    graph = small()
    counted, module = count(graph, "model"), build_module(graph, 0)
    calls = ExecutedCalls(module)
    calls.learn(module, images_of(graph))
    loss = module(images_of(graph)).sum()
    calls.add(images_of(graph))
    torch.autograd.backward(loss, inputs=[module.stem_conv.weight])
    assert calls.operations == 4 * (counted.forward + counted.layers[0].backward)
    calls.remove()
    module(images_of(graph)).sum().backward()
    assert calls.operations == 4 * (counted.forward + counted.layers[0].backward)

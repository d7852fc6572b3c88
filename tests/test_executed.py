"""Operations counted on the executed modules: the same as the graph's count, and only what really ran."""

import pytest
import torch
from graphs import images_of, random_graph, small

from hpcai.models.executed import count_executed
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

"""Operations counted on the executed modules: the same as the graph's count, and executed ones only."""

import pytest
import torch
from graphs import images_of, random_graph, small

from hpcai.inputfile.split import Cut
from hpcai.models.module import build as build_module
from hpcai.models.operation_counter import Executed
from hpcai.models.sequence_layers import CausalAttention
from hpcai.networks import build
from hpcai.networks.decoder import Decoder, decoder
from hpcai.opcount import count
from hpcai.opcount.stages import stages_of

GRAPHS = [build("resnet20", (28, 20), 1, 10), build("resnet50", (20, 20), 3, 7, "v1")]


def learnt(graph, *batches):
    """A module, and a counter that has learnt its operations on these batches; without gradients."""
    module = build_module(graph, 0)
    executed = Executed(module)
    for batch in batches:
        executed.learn(module, images_of(graph, batch))
    return module, executed


def called(module, executed, images):
    """One training call, counted; returns its loss."""
    loss = module(images).sum()
    executed.add(images)
    return loss


@pytest.mark.parametrize("graph", [*GRAPHS, *(random_graph(seed, grouped=True) for seed in range(20))])
def test_executed_operations_equal_the_count_times_the_images(graph):
    module, executed = learnt(graph, 4, 3)
    assert executed.operations == 0
    for batch in (4, 3, 4):
        called(module, executed, images_of(graph, batch)).backward()
        executed.end_backward()
    assert executed.operations == 11 * count(graph, "model").total


def test_attention_that_begins_a_stage_is_counted_backward_if_the_stage_has_gradients():
    graph = decoder(Decoder(blocks=2, width=64), 192, 256)
    first, second = (build_module(stage, 0) for stage in stages_of(graph, Cut(2)))
    executed = Executed(second)
    assert isinstance(next(part for part in second.modules() if not [*part.children()]), CausalAttention)
    given = [each.detach().requires_grad_() for each in first(torch.zeros(3, 1, 1, 192, dtype=torch.long))]
    executed.learn(second, *given)
    counted = count(stages_of(graph, Cut(2))[1], "model")
    for backward in (True, False):
        executed.operations = 0
        executed.add(given[0])
        second(*given).sum().backward() if backward else second.zero_grad()
        executed.end_backward()
        assert executed.operations == 3 * (counted.total if backward else counted.forward)


def test_only_computed_gradients_are_counted():
    graph = small()
    counted, module = count(graph, "model"), build_module(graph, 0)
    module.stem_conv.weight.requires_grad_(False)
    executed = Executed(module)
    executed.learn(module, images_of(graph))
    called(module, executed, images_of(graph)).backward()
    executed.end_backward()
    assert executed.operations == 4 * (counted.total - counted.layers[0].forward)


def test_a_backward_pass_that_is_missing_or_reported_twice_is_not_counted():
    graph = small()
    counted = count(graph, "model")
    module, executed = learnt(graph, 4)
    called(module, executed, images_of(graph))
    executed.end_backward()
    assert executed.operations == 4 * counted.forward
    called(module, executed, images_of(graph)).backward()
    executed.end_backward()
    executed.end_backward()
    assert executed.operations == 4 * (counted.forward + counted.total)


def test_a_shape_that_was_not_learnt_counts_zero():
    graph = small()
    module, executed = learnt(graph, 4)
    assert executed.knows(images_of(graph)) and not executed.knows(images_of(graph, 3))
    called(module, executed, images_of(graph, 3)).backward()
    executed.end_backward()
    assert executed.operations == 0


def test_a_layer_is_counted_backward_only_if_its_weights_have_a_gradient():
    graph = small()
    counted = count(graph, "model")
    module, executed = learnt(graph, 4)
    torch.autograd.backward(called(module, executed, images_of(graph)), inputs=[module.stem_conv.weight])
    executed.end_backward()
    assert executed.operations == 4 * (counted.forward + counted.layers[0].backward)


def test_learning_leaves_no_hooks():
    module, _ = learnt(small(), 4)
    assert not any(part._forward_hooks for part in module.modules())

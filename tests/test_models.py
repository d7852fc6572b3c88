"""Modules made from graphs: the same results as networks written by hand, and the right initial weights."""

import weakref
from copy import deepcopy

import pytest
import torch
from graphs import images_of, random_graph, small
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from hpcai.models.module import build as build_module
from hpcai.networks import build
from hpcai.networks.layers import Add, BatchNorm, Conv, Dense, GlobalPool, Input, MaxPool, Relu
from hpcai.networks.resnet import Architecture, resnet


class Block(nn.Module):
    """Residual block in torch's own layers; `sizes` are (channels, kernel, stride) of its convolutions."""

    def __init__(self, channels, sizes, stride):
        super().__init__()
        self.parts = nn.ModuleList()
        source = channels
        for out, kernel, step in sizes:
            self.parts.append(nn.Conv2d(source, out, kernel, step, kernel // 2, bias=False))
            self.parts.append(nn.BatchNorm2d(out))
            source = out
        self.shortcut = nn.Identity()
        if stride > 1 or channels != source:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, source, 1, stride, bias=False), nn.BatchNorm2d(source))

    def forward(self, x):
        y = x
        for index, part in enumerate(self.parts):
            y = part(y)
            if index % 2 and index < len(self.parts) - 1:
                y = functional.relu(y)
        return functional.relu(y + self.shortcut(x))


def by_hand(blocks, widths, sizes_of, expansion, large, channels, classes):
    """The residual network of that shape as an nn.Sequential."""
    stem = [nn.Conv2d(channels, widths[0], 7 if large else 3, 2 if large else 1, 3 if large else 1, bias=False)]
    stem += [nn.BatchNorm2d(widths[0]), nn.ReLU()] + ([nn.MaxPool2d(3, 2, 1)] if large else [])
    stages, source = [], widths[0]
    for stage, (repeats, width) in enumerate(zip(blocks, widths, strict=True)):
        for block in range(repeats):
            stride = 2 if stage and not block else 1
            stages.append(Block(source, sizes_of(width, stride), stride))
            source = width * expansion
    return nn.Sequential(*stem, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(source, classes))


SIZES = {
    "basic": lambda width, stride: [(width, 3, stride), (width, 3, 1)],
    "v1": lambda width, stride: [(width, 1, stride), (width, 3, 1), (4 * width, 1, 1)],
    "v1.5": lambda width, stride: [(width, 1, 1), (width, 3, stride), (4 * width, 1, 1)],
}


def pair(kind, image):
    """A module from a small graph and its twin by hand, with the same weights, in float64."""
    architecture = Architecture((1, 2, 1), (8, 12, 16), bottleneck=kind != "basic")
    graph = resnet(architecture, image, 3, 5, "v1" if kind == "v1" else "v1.5")
    module = build_module(graph, 7).double()
    twin = by_hand((1, 2, 1), (8, 12, 16), SIZES[kind], architecture.expansion, min(image) > 64, 3, 5).double()
    twin.load_state_dict(dict(zip(twin.state_dict(), module.state_dict().values(), strict=True)))
    return module, twin


def assert_same(left, right):
    torch.testing.assert_close(list(left), list(right), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("image", [(17, 12), (66, 71)])
@pytest.mark.parametrize("kind", SIZES)
def test_same_weights_give_the_results_of_torchs_own_layers(kind, image):
    module, twin = pair(kind, image)
    images = torch.randn(3, 3, *image, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    labels = torch.tensor([0, 4, 2])
    logits, expected = module(images), twin(images)
    assert_same([logits], [expected])
    functional.cross_entropy(logits, labels).backward()
    functional.cross_entropy(expected, labels).backward()
    assert_same((p.grad for p in module.parameters()), (p.grad for p in twin.parameters()))
    assert_same(module.buffers(), twin.buffers())
    assert_same([module.eval()(images)], [twin.eval()(images)])


def interpret(graph, module, images):
    """The graph computed layer by layer in the simplest way: nothing in place, nothing freed, no torch.nn."""
    weights = dict(module.named_parameters())
    values = {}
    for layer in graph.layers:
        x = [values[name] for name in layer.inputs]
        weight, bias = weights.get(f"{layer.name}.weight"), weights.get(f"{layer.name}.bias")
        match layer.op:
            case Input():
                values[layer.name] = images
            case Conv() as op:
                options = (op.stride, op.padding, op.dilation, op.groups)
                values[layer.name] = functional.conv2d(x[0], weight, bias, *options)
            case BatchNorm():
                values[layer.name] = functional.batch_norm(x[0], None, None, weight, bias, training=True)
            case Relu():
                values[layer.name] = torch.where(x[0] > 0, x[0], 0)
            case Add():
                values[layer.name] = torch.stack(x).sum(0)
            case MaxPool() as op:
                values[layer.name] = functional.max_pool2d(x[0], op.kernel, op.stride, op.padding)
            case GlobalPool():
                values[layer.name] = functional.adaptive_avg_pool2d(x[0], 1).flatten(1)
            case Dense():
                values[layer.name] = functional.linear(x[0], weight, bias)
    return values[graph.layers[-1].inputs[0]]


@pytest.mark.parametrize("seed", range(20))
def test_random_graphs_compute_their_layers(seed):
    graph = random_graph(seed, grouped=True)
    module = build_module(graph, seed).double()
    images = torch.randn(3, *graph.shapes["image"], dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    before = images.clone()
    logits, expected = module(images), interpret(graph, module, images)
    weights = list(module.parameters())
    assert torch.equal(images, before)
    torch.testing.assert_close(logits, expected, rtol=1e-9, atol=1e-9)
    gradients = (
        torch.autograd.grad(logits.square().sum(), weights),
        torch.autograd.grad(expected.square().sum(), weights),
    )
    torch.testing.assert_close(*gradients, rtol=1e-8, atol=1e-8)


def test_weights_depend_on_the_seed_alone():
    torch.manual_seed(1)
    state = torch.get_rng_state()
    one = build_module(small(), 5)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    two, other = build_module(small(), 5), build_module(small(), 6)
    assert all(map(torch.equal, one.state_dict().values(), two.state_dict().values()))
    assert not torch.equal(one.stem_conv.weight, other.stem_conv.weight)


def test_the_spread_of_the_weights_is_he_fan_out():
    module = build_module(build("resnet18", (32, 32), 3, 10), 0)
    for name in ("stage2_block1_conv1", "stage4_block1_shortcut_conv"):
        weight = getattr(module, name).weight
        assert weight.std().item() == pytest.approx((2 / (weight.shape[0] * weight[0, 0].numel())) ** 0.5, rel=0.02)
    assert module.dense.weight.std().item() == pytest.approx(512**-0.5, rel=0.05)
    assert all(m.weight.min() == 1 and m.bias.max() == 0 for m in module.children() if isinstance(m, nn.BatchNorm2d))


def test_sub_modules_are_named_as_the_layers_with_parameters():
    graph = small()
    module = build_module(graph, 0)
    assert {name: sum(p.numel() for p in m.parameters()) for name, m in module.named_children()} == graph.parameters


def test_an_exchanged_sub_module_is_used():
    graph = small()
    module = build_module(graph, 0).eval()
    module.dense = nn.Linear(64, 3)
    assert module(images_of(graph)).shape == (4, 3)


def test_a_copy_is_independent():
    graph = small()
    module = build_module(graph, 0).eval()
    copy = deepcopy(module)
    nn.init.zeros_(copy.dense.weight)
    assert copy(images_of(graph)).abs().max() == 0 < module(images_of(graph)).abs().max()


def test_outputs_that_are_no_longer_needed_are_dropped():
    graph = build("resnet14", (12, 12), 1, 10)
    module = build_module(graph, 0).eval()
    made, alive = [], []

    def remember(part, inputs, output):
        alive.append(sum(kept() is not None for kept in made))
        made.append(weakref.ref(output))

    for part in module.children():
        part.register_forward_hook(remember)
    with torch.no_grad():
        module(images_of(graph))
    assert max(alive) <= 2  # the branch and its shortcut
    assert alive[-1] == 0


def test_channels_last_is_kept_and_gives_the_same_logits():
    graph = build("resnet18", (72, 66), 3, 5)
    module = build_module(graph, 0)
    logits = module(images_of(graph))
    layouts = []
    last = deepcopy(module).to(memory_format=torch.channels_last)
    for part in last.children():
        part.register_forward_hook(
            lambda _, __, out: layouts.append(out.is_contiguous(memory_format=torch.channels_last))
        )
    torch.testing.assert_close(
        last(images_of(graph).contiguous(memory_format=torch.channels_last)), logits, rtol=1e-3, atol=1e-4
    )
    assert all(layouts[:-1])


def test_distributed_data_parallel_gives_the_same_gradients(tmp_path):
    graph = small()
    module = build_module(graph, 0)
    twin = deepcopy(module)
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        DistributedDataParallel(module)(images_of(graph)).square().sum().backward()
    finally:
        torch.distributed.destroy_process_group()
    twin(images_of(graph)).square().sum().backward()
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(module.parameters(), twin.parameters(), strict=True))

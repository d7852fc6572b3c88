"""Bytes that a training step moves, compared with counts by hand and with a count of ResNet-50 without a graph."""

from collections.abc import Iterator

import pytest

from hpcai import opcount
from hpcai.inputfile.split import Cut
from hpcai.networks import build
from hpcai.networks.graph import Graph, Layer
from hpcai.networks.layers import Add, BatchNorm, Conv, Dense, GlobalPool, Input, MaxPool, Relu, Softmax
from hpcai.opcount import traffic
from hpcai.update_rules.sgd import Sgd

IMAGE = Layer("image", Input((4, 6, 5)))  # 120 numbers
# Output 8 x 3 x 3 = 72 numbers, 8 x 2 x 6 = 96 weights in two groups, 12 products each.
CONV = Conv(8, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2)
SMALL = Graph(
    (
        IMAGE,
        Layer("first", CONV, ("image",)),
        Layer("norm", BatchNorm(), ("first",)),
        Layer("relu", Relu(), ("norm",)),
        Layer("second", Conv(8, (1, 1)), ("relu",)),  # 64 weights
        Layer("sum", Add(), ("second", "relu")),
        Layer("window", MaxPool((2, 2), (1, 1)), ("sum",)),  # 8 x 2 x 2 = 32
        Layer("pool", GlobalPool(), ("window",)),  # 8
        Layer("dense", Dense(5), ("pool",)),  # 40 weights, 5 biases
        Layer("softmax", Softmax(), ("dense",)),
    )
)
# Numbers a sample times 2 samples, 4 bytes each; weights once.
BY_HAND = {
    "first": (4 * (2 * (120 + 72) + 96), 0, 4 * (2 * (120 + 72) + 96)),  # the image needs no gradient
    "norm": (4 * (3 * 144 + 8 * 8), 4 * (3 * 144 + 5 * 8), 4 * (2 * 144 + 4 * 8)),
    "relu": (4 * 2 * 144, 4 * (3 * 144 + 3 * 144), 0),  # two readers: one sum of two gradients
    "second": (4 * (2 * 144 + 64), 4 * (2 * 144 + 64), 4 * (2 * 144 + 64)),
    "sum": (4 * 3 * 144, 0, 0),
    "window": (4 * (144 + 64) + 8 * 64, 4 * (144 + 64) + 8 * 64, 0),
    "pool": (4 * (64 + 16), 4 * (64 + 16), 0),
    "dense": (4 * (16 + 10 + 45), 4 * (16 + 10 + 45), 4 * (16 + 10 + 45)),
    "softmax": (2 * (2 * 5 * 4 + 8), 2 * (2 * 5 * 4 + 8), 0),
}
PARAMETERS = 96 + 16 + 64 + 45


@pytest.mark.parametrize("name", BY_HAND)
def test_each_kind_of_layer_against_a_count_by_hand(name: str) -> None:
    assert next(layer for layer in traffic.step(SMALL, 2).layers if layer.name == name).nbytes == BY_HAND[name]


def test_a_step_is_its_layers_and_the_update() -> None:
    step = traffic.step(SMALL, 2)
    assert step.update == 4 * 5 * PARAMETERS
    assert traffic.step(SMALL, 2, rule=Sgd(decay=0.0, momentum=0.0)).update == 4 * 3 * PARAMETERS
    assert traffic.step(SMALL, 2, clips=True).update == 4 * 8 * PARAMETERS
    assert step.nbytes == sum(map(sum, BY_HAND.values())) + step.update
    products = {"first": 2 * 72 * 12, "second": 2 * 72 * 8, "dense": 2 * 40}
    assert step.operations == 2 * (2 * products["first"] + 3 * products["second"] + 3 * products["dense"])
    assert step.work() == {"convolution": 2 * (2 * 1728 + 3 * 1152), "gemm": 2 * 3 * 80}
    assert step.intensity == step.operations / step.nbytes
    assert traffic.gradient_bytes(SMALL, 4) == 4 * PARAMETERS


def test_layers_before_the_first_weights_get_no_gradient() -> None:
    graph = Graph((IMAGE, Layer("relu", Relu(), ("image",)), Layer("norm", BatchNorm(), ("relu",))))
    relu, norm = traffic.step(graph, 1).layers
    assert relu.nbytes == (4 * 240, 0, 0)
    assert norm.nbytes == (4 * (360 + 32), 0, 4 * (240 + 16))


def test_16_bits_halve_the_maps_and_copy_the_weights() -> None:
    """Mixed: 6 bytes of copies a weight each way, maps and operands of products in 2 bytes, all other tensors in 4."""
    mixed = {layer.name: layer.nbytes for layer in traffic.step(SMALL, 2, "bf16").layers}
    assert mixed["second"] == (2 * (2 * 144 + 64) + 6 * 64, 2 * (2 * 144 + 64), 2 * (2 * 144 + 64) + 6 * 64)
    assert mixed["norm"][0] == 2 * 3 * 144 + 4 * 8 * 8
    assert traffic.step(SMALL, 2, "fp16").update == 4 * 5 * PARAMETERS
    pure = traffic.step(SMALL, 2, "pure16")
    assert {layer.name: layer.nbytes for layer in pure.layers}["second"] == (2 * (2 * 144 + 64),) * 3
    assert pure.update == 5 * (2 * (PARAMETERS - 16) + 4 * 16)
    assert traffic.step(SMALL, 2, "halffp16") == pure
    assert traffic.step(SMALL, 2, "tf32") == traffic.step(SMALL, 2)


def convolutions() -> Iterator[tuple[int, int, int, int, int, bool]]:
    """Of ResNet-50 v1.5 at 224 x 224: channels in and out, kernel, side before and after, whether a ReLU follows."""
    yield 3, 64, 7, 224, 112, True
    channels, side = 64, 56
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 * 2**stage
        for block in range(blocks):
            after = side // 2 if stage and block == 0 else side
            yield channels, width, 1, side, side, True
            yield width, width, 3, side, after, True
            yield width, 4 * width, 1, after, after, False
            if block == 0:
                yield channels, 4 * width, 1, side, after, False
            channels, side = 4 * width, after


def resnet50_bytes(batch: int) -> float:
    """Bytes of an fp32 step, by kinds of layer and not layer by layer; in numbers of 4 bytes until the last line."""
    layers = list(convolutions())
    weights = sum(i * o * k * k for i, o, k, _, _, _ in layers)
    sources = sum(i * before**2 for i, _, _, before, _, _ in layers)
    outputs = sum(o * after**2 for _, o, _, _, after, _ in layers)
    products = 3 * (batch * (sources + outputs) + weights)
    products -= batch * (3 * 224**2 + 64 * 112**2) + 3 * 64 * 49  # the image needs no gradient
    norms = 8 * batch * outputs + 17 * sum(o for _, o, *_ in layers)
    blocks = [(256, 56, 3), (512, 28, 4), (1024, 14, 6), (2048, 7, 3)]
    ends = sum(c * s**2 * times for c, s, times in blocks)
    relus = 5 * batch * (sum(o * after**2 for _, o, _, _, after, relu in layers if relu) + ends)
    split = 3 * batch * (ends - 2048 * 49 + 64 * 56**2)  # every block's input has two readers
    window = 2 * batch * (64 * 112**2 + 3 * 64 * 56**2)  # indices take as much as two numbers
    pool, loss = 2 * batch * (2048 * 49 + 2048), 2 * batch * (2 * 1000 + 2)
    dense = 3 * (batch * 3048 + 2_049_000)
    update = 5 * 25_557_032
    return 4.0 * (products + norms + relus + 3 * batch * ends + split + window + pool + loss + dense + update)


@pytest.mark.parametrize("batch", [1, 32])
def test_resnet50_by_another_derivation(batch: int) -> None:
    step = traffic.step(build("resnet50", (224, 224), 3, 1000), batch)
    assert step.nbytes == resnet50_bytes(batch)
    assert step.operations == 24_299_077_632 * batch
    assert traffic.gradient_bytes(build("resnet50", (224, 224), 3, 1000), 4) == 4 * 25_557_032


def test_intensities_of_resnet50() -> None:
    """A 3 x 3 convolution does 9 times the work of a 1 x 1 on the same maps; larger batches share the weights."""
    layers = {layer.name: layer for layer in traffic.step(build("resnet50", (224, 224), 3, 1000), 32).layers}
    middle = layers["stage1_block2_conv2"]
    maps, weights = 2 * 32 * 64 * 56**2, 64 * 64 * 9
    assert middle.intensity == (2 * 32 * 64 * 64 * 9 * 56**2 / (4 * (maps + weights)),) * 3
    assert layers["stem_conv"].intensity[1] is None and layers["stem_relu"].intensity == (0, 0, None)
    intensities = [traffic.step(build("resnet50", (224, 224), 3, 1000), batch).intensity for batch in (1, 8, 32, 256)]
    assert intensities == sorted(intensities)
    assert intensities[2] == pytest.approx(24.8788, rel=1e-5)


def test_operations_are_those_of_the_rule() -> None:
    for name, image in (("resnet8", 28), ("resnet18", 64)):
        graph = build(name, (image, image), 3, 10)
        assert traffic.step(graph, 3).operations == 3 * opcount.count(graph, "model").total


def test_a_replica_moves_the_parameters_of_its_parts_once_a_micro_batch() -> None:
    graph, rule = build("resnet8", (16, 16), 3, 10), Sgd(decay=0.0, momentum=0.9)
    whole = traffic.step(graph, 8, "fp32", rule)
    assert traffic.replica_step(graph, Cut(samples=8), 1, "fp32", rule) == whole
    staged = traffic.replica_step(graph, Cut(2, 1, 4), 2, "fp32", rule)
    assert (staged.operations, staged.update) == (whole.operations, whole.update)
    half = traffic.step(graph, 4, "fp32", rule)
    assert staged.nbytes == 2 * (half.nbytes - half.update) + half.update
    for shards in (2, 12):
        sharded = traffic.replica_step(graph, Cut(1, shards, 8), 1, "fp32", rule)
        assert sharded.operations == whole.operations and sharded.nbytes > whole.nbytes

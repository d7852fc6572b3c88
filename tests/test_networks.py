"""Networks as graphs: refused ones, their shapes, and that the family is the published one."""

import pickle
from copy import deepcopy
from dataclasses import FrozenInstanceError, replace

import pytest
from graphs import random_graph

from hpcai.errors import InputError
from hpcai.networks import NAMES, build
from hpcai.networks.execution_plan import execution_plan
from hpcai.networks.graph import Graph, Layer
from hpcai.networks.layers import Add, BatchNorm, Conv, Dense, GlobalPool, Input, MaxPool, Relu, Softmax

IMAGE = Layer("image", Input((4, 9, 7)))


def graph(*layers):
    return Graph((IMAGE, *layers))


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ([Layer("a", Relu(), ("b",))], "'a'.*'b', which does not exist"),
        ([Layer("a", Relu(), ("b",)), Layer("b", Relu(), ("a",))], "'a'.*'b', which is not computed before"),
        ([Layer("a", Relu(), ("a",))], "not computed before"),
        ([Layer("a", Relu(), ("image",)), Layer("a", Relu(), ("a",))], "'a' is defined 2 times"),
        ([Layer("a.b", Relu(), ("image",))], "'a.b' is not allowed"),
        ([Layer("a", Relu(), ())], "reads 0 layers, should read 1"),
        ([Layer("a", Add(), ("image",))], "reads 1 layers, should read 2 or more"),
        (
            [Layer("a", Conv(4, (1, 1), (2, 1)), ("image",)), Layer("b", Add(), ("a", "image"))],
            r"\(4, 5, 7\), \(4, 9, 7\)",
        ),
        ([Layer("a", Conv(6, (3, 3), groups=4), ("image",))], "4 to 6 channels do not divide into 4 groups"),
        ([Layer("a", Conv(6, (3, 3), groups=3), ("image",))], "do not divide into 3 groups"),
        ([Layer("a", Conv(4, (3, 9), padding=(0, 0)), ("image",))], "window of 3 x 9 exceeds the padded map of 9 x 7"),
        ([Layer("a", Conv(4, (3, 3), dilation=(5, 1)), ("image",))], "window of 11 x 3 exceeds"),
        ([Layer("a", Conv(0, (3, 3)), ("image",))], "channels must be at least 1"),
        ([Layer("a", Conv(4, (3, 3), stride=(0, 1)), ("image",))], "stride must be at least 1"),
        ([Layer("a", Conv(4, (3, 3), padding=(-1, 0)), ("image",))], "padding must be at least 0"),
        ([Layer("a", MaxPool((2, 2), (2, 2), (2, 0)), ("image",))], "more than half of the window"),
        ([Layer("a", Dense(4), ("image",))], "'a'.*needs a vector"),
        ([Layer("a", GlobalPool(), ("image",)), Layer("b", BatchNorm(), ("a",))], "'b'.*needs a map"),
        ([Layer("a", Relu(), ("image",)), Layer("b", Relu(), ("image",))], "'a'.*read by no layer"),
        ([Layer("a", Input((3, 4, 4))), Layer("b", Add(), ("image", "a"))], "one input"),
        (
            [Layer("a", GlobalPool(), ("image",)), Layer("b", Softmax(), ("a",)), Layer("c", Dense(2), ("b",))],
            "only the last layer may be a softmax",
        ),
        ([], "at least one more layer"),
    ],
)
def test_an_impossible_graph_is_refused_with_the_layer(layers, words):
    with pytest.raises(InputError, match=words):
        graph(*layers)


@pytest.mark.parametrize("layers", [(), (Layer("a", Relu(), ("a",)),), (Layer("image", Input((4, 4))), IMAGE)])
def test_a_graph_without_an_image_is_refused(layers):
    with pytest.raises(InputError):
        Graph(layers)


def test_a_graph_is_immutable():
    network = build("resnet8", (28, 28), 1, 10)
    with pytest.raises(FrozenInstanceError):
        network.layers = ()
    with pytest.raises(TypeError):
        network.shapes["dense"] = (11,)


def test_copies_are_equal_and_edits_are_new_graphs():
    network = build("resnet8", (28, 28), 1, 10)
    assert pickle.loads(pickle.dumps(network)) == deepcopy(network) == network
    assert hash(network) == hash(build("resnet8", (28, 28), 1, 10))
    wider = {"stage1_block1_conv1": Conv(24, (5, 5), padding=(2, 2))}
    edited = Graph(tuple(replace(layer, op=wider.get(layer.name, layer.op)) for layer in network.layers))
    assert edited != network
    assert edited.shapes["stage1_block1_relu1"] == (24, 28, 28)
    assert network.shapes["stage1_block1_relu1"] == (16, 28, 28)
    assert edited.parameters["stage1_block1_conv2"] == 24 * 16 * 9


def test_the_trained_layers_are_those_downstream_of_a_parameter():
    network = graph(
        Layer("early", Relu(), ("image",)),
        Layer("conv", Conv(4, (1, 1)), ("early",)),
        Layer("sum", Add(), ("early", "conv")),
    )
    assert network.trained == {"conv", "sum"}
    assert dict(network.readers) == {"image": 1, "early": 2, "conv": 1}


# Trained values of He et al. and the published model zoos, 1000 classes.
PARAMETERS = {
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "resnet152": 60_192_808,
}


@pytest.mark.parametrize("variant", ["v1", "v1.5"])
@pytest.mark.parametrize("name", PARAMETERS)
def test_the_family_has_the_published_number_of_parameters(name, variant):
    assert sum(build(name, (224, 224), 3, 1000, variant).parameters.values()) == PARAMETERS[name]


@pytest.mark.parametrize("depth", [8, 14, 20, 32, 56])
def test_small_image_networks_have_6n_plus_2_layers(depth):
    network = build(f"resnet{depth}", (32, 32), 3, 10)
    layers = [layer for layer in network.layers if isinstance(layer.op, Conv | Dense) and "shortcut" not in layer.name]
    assert len(layers) == depth
    shortcuts = [layer.name for layer in network.layers if "shortcut_conv" in layer.name]
    assert shortcuts == ["stage2_block1_shortcut_conv", "stage3_block1_shortcut_conv"]


def test_the_stem_depends_on_the_shorter_side():
    assert build("resnet18", (64, 224), 3, 10).shapes["stem_relu"] == (64, 64, 224)
    assert build("resnet18", (65, 224), 3, 10).shapes["stem_pool"] == (64, 17, 56)
    assert build("resnet20", (224, 224), 3, 10).shapes["stem_relu"] == (16, 224, 224)


def test_the_variants_differ_in_the_strided_layer_of_a_stage():
    first, fifth = (build("resnet50", (224, 160), 3, 1000, variant).shapes for variant in ("v1", "v1.5"))
    assert first["stage2_block1_conv1"] == (128, 28, 20)
    assert fifth["stage2_block1_conv1"] == (128, 56, 40)
    assert first["stage4_block3_relu3"] == fifth["stage4_block3_relu3"] == (2048, 7, 5)
    assert build("resnet34", (224, 224), 3, 10, "v1") == build("resnet34", (224, 224), 3, 10, "v1.5")


@pytest.mark.parametrize("name", NAMES)
def test_the_smallest_image_passes_through_every_network(name):
    assert build(name, (1, 1), 1, 2).shapes["softmax"] == (2,)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("resnet5", (32, 32), 3, 10), "unknown network 'resnet5'; allowed are resnet18, .* did you mean resnet5"),
        (("vgg", (32, 32), 3, 10), "unknown network 'vgg'; allowed are [^;]*$"),
        (("resnet18", (32, 32), 3, 10, "v2"), "unknown variant 'v2'; allowed are v1, v1.5"),
        (("resnet18", (0, 32), 3, 10), "image height must be at least 1, not 0"),
        (("resnet18", (32, -3), 3, 10), "image width must be at least 1, not -3"),
        (("resnet18", (32, 32), 0, 10), "channels must be at least 1, not 0"),
        (("resnet18", (32, 32), 3, 1), "classes must be at least 2, not 1"),
    ],
)
def test_impossible_networks_are_refused(arguments, words):
    with pytest.raises(InputError, match=words):
        build(*arguments)


def test_a_residual_block_adds_and_rectifies_in_place():
    steps = {step.layer.name: step for step in execution_plan(build("resnet8", (28, 28), 1, 10))}
    assert steps["stage1_block1_add"].overwrites == "stage1_block1_norm2"
    assert steps["stage1_block1_relu2"].overwrites == "stage1_block1_add"
    assert steps["stage1_block1_conv1"].overwrites is None
    assert steps["stage1_block1_conv1"].frees == ()
    assert steps["stage1_block1_add"].frees == ("stage1_block1_norm2", "stem_relu")


@pytest.mark.parametrize("seed", range(20))
def test_a_plan_frees_each_output_once_and_never_writes_over_what_is_read_again(seed):
    network = random_graph(seed)
    freed = [name for step in execution_plan(network) for name in step.frees]
    assert sorted(freed) == sorted(layer.name for layer in network.layers[:-1])
    for step in execution_plan(network):
        assert step.overwrites is None or (step.overwrites in step.frees and network.readers[step.overwrites] == 1)
        assert step.overwrites != "image"

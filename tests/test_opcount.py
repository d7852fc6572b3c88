"""Operation counts: the published and derived numbers exactly, and agreement with torch's own counter."""

import json
import subprocess
import sys

import pytest
import torch
from graphs import random_graph
from sampled_parameters import fast
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from hpcai.errors import InputError
from hpcai.models.module import Network
from hpcai.networks import NAMES, build
from hpcai.networks.graph import Graph, Layer
from hpcai.networks.layers import Add, BatchNorm, Conv, Dense, GlobalPool, Input, MaxPool, Relu, Softmax
from hpcai.opcount import count
from hpcai.opcount.__main__ import main

BATCH = 2


def resnet50(variant, rule):
    return count(build("resnet50", (224, 224), 3, 1000, variant), rule)


def by_kind(counted, kind):
    rows = [row for row in counted.layers if row.kind == kind]
    return sum(row.forward for row in rows), sum(row.backward for row in rows)


@pytest.mark.parametrize(
    ("variant", "forward", "total"),
    [("v1.5", 8_178_368_512, 24_299_077_632), ("v1", 7_715_946_496, 22_911_811_584)],
)
def test_operations_of_resnet50_by_the_model_rule(variant, forward, total):
    counted = resnet50(variant, "model")
    assert (counted.forward, counted.total) == (forward, total)


def test_operations_of_resnet18_by_the_model_rule():
    assert count(build("resnet18", (224, 224), 3, 1000), "model").total == 10_648_412_160


AIPERF_LINES = {
    "convolution": (7_711_850_496, 15_234_582_912),
    "dense": (4_096_000, 12_290_000),
    "batch norm": (74_109_952, 1_908),
    "relu": (9_081_856, 0),
    "max pool": (1_806_336, 0),
    "add": (5_519_360, 0),
    "global pool": (106_496, 0),
    "softmax": (12_999, 0),
}


def test_operations_by_the_aiperf_rule_line_by_line():
    counted = resnet50("v1", "aiperf")
    assert {kind: by_kind(counted, kind) for kind in AIPERF_LINES} == AIPERF_LINES
    assert (counted.forward, counted.backward) == (7_806_583_495, 15_246_874_820)


@pytest.mark.parametrize(("variant", "forward"), [("v1", 7_739_990_016), ("v1.5", 8_203_465_728)])
def test_operations_by_the_hpcai500_rule(variant, forward):
    counted = resnet50(variant, "hpcai500")
    assert (counted.forward, counted.backward) == (forward, 2 * forward)


# Each kind alone, small enough to be counted by hand: image 4 x 6 x 5.
def one(*layers):
    return Graph((Layer("image", Input((4, 6, 5))), *layers))


STRIDED = Conv(
    8, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2
)  # output 8 x 3 x 3, 12 products each
THREE = Add()
HAND_COUNTS = [
    (one(Layer("a", STRIDED, ("image",))), {"model": (1728, 1728), "aiperf": (1728, 1920), "hpcai500": (1728, 3456)}),
    (
        one(Layer("n", BatchNorm(), ("image",)), Layer("a", STRIDED, ("n",))),
        {"model": (1728, 3456), "aiperf": (1728 + 840, 3648 + 36), "hpcai500": (1728 + 120, 3456 + 240)},
    ),
    (one(Layer("a", Relu(), ("image",))), {"model": (0, 0), "aiperf": (120, 0), "hpcai500": (120, 240)}),
    (one(Layer("a", THREE, ("image",) * 3)), {"model": (0, 0), "aiperf": (240, 0), "hpcai500": (240, 480)}),
    (
        one(Layer("a", MaxPool((2, 3), (2, 2)), ("image",))),  # output 4 x 3 x 2
        {"model": (0, 0), "aiperf": (144, 0), "hpcai500": (120, 240)},
    ),
    (
        one(Layer("p", GlobalPool(), ("image",)), Layer("a", Dense(3), ("p",)), Layer("s", Softmax(), ("a",))),
        {"model": (24, 24), "aiperf": (132 + 24 + 38, 24 + 30), "hpcai500": (120 + 12, 264)},
    ),
]


@pytest.mark.parametrize(("graph", "expected"), HAND_COUNTS)
@pytest.mark.parametrize("rule", ["model", "aiperf", "hpcai500"])
def test_each_kind_of_layer_against_a_count_by_hand(graph, expected, rule):
    counted = count(graph, rule)
    assert (counted.forward, counted.backward) == expected[rule]
    assert counted.total == sum(row.forward + row.backward for row in counted.layers)


def test_an_unknown_rule_is_refused():
    with pytest.raises(InputError, match="unknown rule 'flops'; allowed are model, aiperf, hpcai500"):
        count(HAND_COUNTS[0][0], "flops")


def torch_counts(graph):
    """Operations of a batch, forward and backward, by torch's own counter; without data (meta device)."""
    module = Network(graph)
    images = torch.empty(BATCH, *graph.shapes["image"], device="meta")
    with FlopCounterMode(display=False) as counter:
        logits = module(images)
        forward = counter.get_total_flops()
        logits.sum().backward()
    return forward, counter.get_total_flops() - forward


ODD = ((70, 97), 1, 7, "v1")
LATER = (((32, 32), 3, 10, "v1.5"), ((224, 160), 3, 1000, "v1.5"))
FAMILY = [(name, *size) for size in (ODD, *LATER) for name in NAMES]


@pytest.mark.parametrize(
    ("name", "image", "channels", "classes", "variant"), fast([(name, *ODD) for name in NAMES], FAMILY)
)
def test_model_rule_equals_the_counter_of_torch_on_the_family(name, image, channels, classes, variant):
    graph = build(name, image, channels, classes, variant)
    counted = count(graph, "model")
    assert torch_counts(graph) == (BATCH * counted.forward, BATCH * counted.backward)


@pytest.mark.parametrize("seed", range(40))
def test_model_rule_equals_the_counter_of_torch_on_random_graphs(seed):
    graph = random_graph(seed)
    counted = count(graph, "model")
    assert torch_counts(graph) == (BATCH * counted.forward, BATCH * counted.backward)


@pytest.mark.parametrize("seed", range(10))
def test_model_rule_equals_the_counter_of_torch_on_grouped_graphs_forward(seed):
    """Forward only: for the gradient of a grouped convolution's weights, torch counts all pairs of channels, also those
    of different groups, which are not computed. The next test counts the groups separately instead.
    """
    graph = random_graph(seed, grouped=True)
    assert torch_counts(graph)[0] == BATCH * count(graph, "model").forward


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_a_grouped_convolution_counts_as_much_as_its_separate_groups(groups):
    counted = count(
        one(Layer("n", BatchNorm(), ("image",)), Layer("a", Conv(8, (3, 2), groups=groups), ("n",))), "model"
    )
    images = torch.empty(BATCH, 4, 6, 5, device="meta", requires_grad=True)
    weights = torch.empty(8, 4 // groups, 3, 2, device="meta", requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        parts = zip(images.chunk(groups, 1), weights.chunk(groups, 0), strict=True)
        apart = torch.cat([functional.conv2d(x, w) for x, w in parts], 1)
        assert counter.get_total_flops() == BATCH * counted.forward
        apart.sum().backward()
    assert counter.get_total_flops() == BATCH * counted.total


TABLE = """\
resnet50 v1, image 3 x 224 x 224, 1000 classes: operations per image by rule aiperf

kind         layers             forward            backward               total         GFLOP
---------------------------------------------------------------------------------------------
convolution      53       7,711,850,496      15,234,582,912      22,946,433,408     22.946433
batch norm       53          74,109,952               1,908          74,111,860      0.074112
relu             49           9,081,856                   0           9,081,856      0.009082
max pool          1           1,806,336                   0           1,806,336      0.001806
add              16           5,519,360                   0           5,519,360      0.005519
global pool       1             106,496                   0             106,496      0.000106
dense             1           4,096,000          12,290,000          16,386,000      0.016386
softmax           1              12,999                   0              12,999      0.000013
---------------------------------------------------------------------------------------------
total           175       7,806,583,495      15,246,874,820      23,053,458,315     23.053458
"""


def test_the_command_prints_a_table(capsys):
    main(["resnet50", "--image", "224", "--variant", "v1", "--rule", "aiperf"])
    assert capsys.readouterr().out == TABLE


def test_the_command_prints_json(capsys):
    main(["resnet20", "--image", "28x24", "--classes", "10", "--channels", "1", "--rule", "hpcai500", "--json"])
    document = json.loads(capsys.readouterr().out)
    counted = count(build("resnet20", (28, 24), 1, 10), "hpcai500")
    layers = document.pop("layers")
    assert document == {
        "network": "resnet20",
        "variant": "v1.5",
        "image": [28, 24],
        "channels": 1,
        "classes": 10,
        "rule": "hpcai500",
        "forward": counted.forward,
        "backward": counted.backward,
        "total": counted.total,
    }
    first = {"name": "stem_conv", "kind": "convolution", "shape": [16, 28, 24], "forward": 193536, "backward": 387072}
    assert layers[0] == first
    assert sum(layer["forward"] for layer in layers) == counted.forward


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("resnet5 --image 224 --rule model", "unknown network 'resnet5'"),
        ("resnet50 --image 0 --rule model", "image height must be at least 1"),
        ("resnet50 --image 224x --rule model", "'224x' is neither a size such as 224 nor"),
        ("resnet50 --image ٢٢٤ --rule model", "neither a size"),
        ("resnet50 --image 224 --rule flops", "invalid choice: 'flops'"),
        ("resnet50 --image 224 --rule model --variant v2", "invalid choice: 'v2'"),
        ("resnet50 --image 224 --rule model --classes 1e3", "'1e3' is not a whole number"),
        ("resnet50 --image 224", "required: --rule"),
        ("--image 224 --rule model", "required: NETWORK"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_2(arguments, words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments.split())
    printed = capsys.readouterr()
    assert ended.value.code == 2
    assert words in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""


def test_the_command_runs_without_torch_and_numpy():
    program = (
        "import runpy, sys\n"
        "sys.argv = ['opcount', 'resnet8', '--image', '28', '--rule', 'model']\n"
        "runpy.run_module('hpcai.opcount', run_name='__main__')\n"
        "assert not {'torch', 'numpy', 'mpi4py'} & set(sys.modules)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("resnet8 v1.5, image 3 x 28 x 28")

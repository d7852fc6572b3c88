"""Detectors as graphs: sizes against counts by hand, shared weights, and all functions that traverse such graphs."""

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from hpcai import estimate
from hpcai.errors import InputError
from hpcai.networks import DETECTING, build
from hpcai.networks.digest import digest
from hpcai.networks.execution_plan import execution_plan
from hpcai.networks.faster_rcnn import DETECTORS, PARTS, DetectorSizes, faster_rcnn, part
from hpcai.networks.graph import Graph, Layer
from hpcai.networks.layers import Conv, Dense, Input, Relu, Upsample
from hpcai.networks.morphism import Deepen, Widen
from hpcai.networks.regions import Detections, Proposals, RoiAlign
from hpcai.opcount import count, products, traffic

FULL = (768, 1152)
WHOLE = build("fasterrcnn50", FULL, 16, 4)
SMALL = build("fasterrcnn8", (48, 64), 16, 2)
PIXELS = sum(192 * 288 // 4**level for level in range(5))  # of P2 ... P6


def test_parameters_of_each_part_against_a_count_by_hand() -> None:
    found = dict.fromkeys(PARTS, 0)
    for layer, values in WHOLE.parameters.items():
        found[part(layer)] += values
    assert found == {
        "backbone": 25_557_032 - 2_049_000 + 64 * 49 * 13,  # ResNet-50 without its dense layer, 13 channels more
        "pyramid": 256 * (256 + 512 + 1024 + 2048) + 4 * 256 + 4 * (256 * 256 * 9 + 256),
        "proposals": 256 * 256 * 9 + 256 + (3 + 12) * 257,
        "boxes": (49 * 256 + 1) * 1024 + 1025 * 1024 + 1025 * 5 + 1025 * 16,
    }


def test_operations_of_heads_against_a_count_by_hand() -> None:
    found = {name: [row for row in count(WHOLE, "model").layers if part(row.name) == name] for name in PARTS}
    forward = {name: sum(row.forward for row in rows) for name, rows in found.items()}
    assert forward["proposals"] == 2 * PIXELS * (256 * 256 * 9 + 256 * 15)  # at every level
    assert forward["boxes"] == 2 * 256 * (49 * 256 * 1024 + 1024 * 1024 + 1024 * 21)  # of every region
    assert all(2 * row.forward == row.backward for name in PARTS[1:] for row in found[name])


def test_shared_weights_are_updated_once_by_rule_aiperf() -> None:
    rows = {row.name: row for row in count(WHOLE, "aiperf").layers}
    update = 2 * 9 * 256 * 256
    assert rows["proposals_conv1"].backward == 2 * rows["proposals_conv1"].forward + update
    assert rows["proposals_conv2"].backward == 2 * rows["proposals_conv2"].forward
    assert rows["boxes_dense2"].backward == 2 * rows["boxes_dense2"].forward + 2 * 1025 * 1024


def test_levels_of_odd_sizes_fit_together() -> None:
    for name in DETECTING:
        for image in ((1, 1), (70, 97), (97, 70), (33, 64)):
            graph = build(name, image, 16, 3)
            assert graph.shapes["boxes_found"] == (100, 6)
            assert graph.shapes["pyramid_upsample1"] == graph.shapes["pyramid_lateral1"]


def test_detection_settings_are_part_of_the_network() -> None:
    sizes = DetectorSizes(regions=8, after=9, before=5, anchors=7, most=3, side=2, ratios=(1.0,))
    graph = faster_rcnn(replace(DETECTORS["fasterrcnn8"], sizes=sizes), (48, 64), 16, 2)
    assert graph.shapes["boxes_align"] == (8, 4 * 32) and graph.shapes["proposals_score1"][0] == 1
    assert graph.shapes["boxes_found"] == (3, 6)
    assert digest(graph) != digest(SMALL)


def _changed(layers: Any, name: str, **changes: Any) -> Graph:
    return Graph(tuple(replace(layer, **changes) if layer.name == name else layer for layer in layers))


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("proposals_conv2", {"shares": "nobody"}, "shares weights of 'nobody', which has none of its own"),
        ("proposals_conv2", {"shares": "proposals_conv3"}, "which has none of its own before it"),
        ("proposals_conv3", {"shares": "proposals_conv2"}, "which has none of its own"),
        ("proposals_relu2", {"shares": "proposals_relu1"}, "which has none of its own"),
        ("proposals_score2", {"shares": "proposals_conv1"}, "which computes something else"),
        ("stage2_block1_conv2", {"shares": "stage1_block1_conv1"}, "which computes something else"),
        ("proposals_regions", {"inputs": ("proposals_score1", "proposals_offset2")}, "do not fit 3 anchors"),
        ("proposals_regions", {"op": Proposals((0.5, 1, 2), 4.0, 9, 8, 9)}, "9 regions cannot be taken from 8"),
        ("boxes_found", {"op": Detections(1, 0)}, "must be at least 1"),
        ("boxes_align", {"op": RoiAlign(0, 1, 4.0)}, "must be at least 1"),
        ("pyramid_upsample1", {"op": Upsample((3, 3))}, "is larger than 3 x 3"),
    ],
)
def test_impossible_layers_are_refused(name: str, changes: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        _changed(SMALL.layers, name, **changes)


def test_shared_weights_change_the_digest() -> None:
    assert digest(_changed(SMALL.layers, "proposals_conv2", shares="")) != digest(SMALL)


def test_a_dense_layer_on_a_table_is_one_on_each_row() -> None:
    assert Dense(5).shape((7, 3)) == (7, 5) and Dense(5).parameters((7, 3)) == 20
    assert Dense(5).shape((3,)) == (5,)


def test_searches_refuse_detectors() -> None:
    for morphism in (Deepen("stem_relu", 3), Widen("stem_conv", 64)):
        with pytest.raises(InputError, match="networks with such a layer cannot be changed"):
            morphism.apply(SMALL)
    with pytest.raises(InputError, match="no image size is known for the network 'fasterrcnn8'; allowed are resnet18"):
        products.graph_of("fasterrcnn8")


def test_traffic_of_detection_layers_against_a_count_by_hand() -> None:
    moved = {layer.name: layer for layer in traffic.step(SMALL, 2).layers}
    assert moved["pyramid_upsample2"].nbytes == (8 * 32 * (12 + 48), 8 * 32 * (12 + 48), 0)  # 3 x 4 to 6 x 8
    table = 8 * (16 * 128 + 16 * 128) + 4 * 128 * 129
    assert moved["boxes_dense2"].nbytes == (table, table, table)
    rows, maps = 16 * 25 * 32, 32 * (12 * 16 + 6 * 8 + 3 * 4)
    assert moved["boxes_align"].nbytes[0] == 8 * (rows + maps + 16 * 4)
    assert moved["proposals_regions"].nbytes[1:] == (0, 0)
    assert sum(map(sum, (layer.operations for layer in moved.values()))) == 2 * count(SMALL, "model").total


def test_memory_grows_with_the_batch_and_is_planned_for_every_layer() -> None:
    one, two = (estimate.step_bytes(SMALL, batch, estimate.Storage()) for batch in (1, 2))
    assert one < two <= 2 * one
    freed = [name for step in execution_plan(SMALL) for name in step.frees]
    assert sorted(freed) == sorted(layer.name for layer in SMALL.layers[:-1])


def test_the_smallest_graph_with_shared_weights() -> None:
    conv = Conv(4, (1, 1))
    image = Layer("image", Input((4, 3, 3)))
    graph = Graph((image, Layer("a", conv, ("image",)), Layer("r", Relu(), ("a",)), Layer("b", conv, ("r",), "a")))
    assert graph.parameters == {"a": 16} and graph.weights == {"a": 16, "b": 16}
    counted = count(graph, "model")
    assert (counted.forward, counted.backward) == (2 * 2 * 144, 3 * 2 * 144)


def test_the_command_prints_parts_by_all_rules() -> None:
    command = [sys.executable, "-m", "hpcai.opcount", "fasterrcnn50"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [line.split() for line in ended.stdout.splitlines() if line.startswith(("model", "aiperf", "hpcai500"))]
    assert [row[:2] for row in rows] == [[r, p] for r in ("model", "aiperf", "hpcai500") for p in (*PARTS, "total")]
    totals = {row[0]: int(row[5].replace(",", "")) for row in rows if row[1] == "total"}
    assert totals == {rule: count(WHOLE, rule).total for rule in totals}
    assert ended.stdout.startswith("fasterrcnn50 v1.5, image 16 x 768 x 1152, 4 classes: operations per image by part")

"""What PRECISION int8 means to networks, plans and ceilings: whose layers, bytes moved, memory, and what is refused."""

from math import prod
from typing import Any

import pytest
import torch
from hpcai.report.schema.check import violations
from hpcai.report.schema.roofline import ROOFLINE
from kernel_rows import case_of, raw_of
from small_run import cases_of, golden
from test_estimate import BATCH, FACTS, SETTINGS
from test_traffic import SMALL
from torch import nn
from torch.nn.functional import cross_entropy

from hpcai import networks
from hpcai import result as results
from hpcai.estimate import memory
from hpcai.models.build import build as built
from hpcai.models.module import build
from hpcai.networks.layers import Conv, Dense
from hpcai.opcount import traffic
from hpcai.preflight.case_checks import _refused_choice
from hpcai.report.roofline import lines
from hpcai.train import precision, quantised
from hpcai.train.providers import give_back, take_over

CPU = torch.device("cpu")


def layers(module: nn.Module) -> list[nn.Module]:
    return [part for part in module.modules() if isinstance(part, nn.Conv2d | nn.Linear)]


def gradients(module: nn.Module) -> list[Any]:
    x = torch.randn(4, 3, 20, 20, generator=torch.Generator().manual_seed(1))
    loss = cross_entropy(module(x), torch.arange(4))
    return [loss, *torch.autograd.grad(loss, list(module.parameters()))]


def test_every_product_of_a_picture_network_and_of_a_detector_is_of_bytes() -> None:
    for module in (
        build(networks.build("resnet8", (20, 20), 3, 10), 1),
        built(networks.build("fasterrcnn8", (48, 72), 16, 2), 1),
    ):
        assert not any(map(quantised.is_quantised, layers(module)))
        precision.apply("int8", module, CPU)
        assert layers(module) and all(map(quantised.is_quantised, layers(module)))


def test_kernels_custom_changes_whose_gradients_and_nothing_forward() -> None:
    module = build(networks.build("resnet8", (20, 20), 3, 10), 1)
    precision.apply("int8", module, CPU)
    vendors = gradients(module)
    take_over(module)
    assert all(map(quantised.is_quantised, layers(module)))
    assert {part.forward.args[1] for part in layers(module)} == {frozenset({"forward", *quantised_directions()})}
    for own, right in zip(gradients(module), vendors, strict=True):
        torch.testing.assert_close(own, right, rtol=0.1, atol=0.05)
    give_back(module)
    assert {part.forward.args[1] for part in layers(module)} == {frozenset()}
    assert torch.equal(gradients(module)[0], vendors[0])


def quantised_directions() -> tuple[str, ...]:
    return "input_gradient", "weight_gradient"


def test_forward_products_make_bytes_and_read_them() -> None:
    """2 bytes more for each number of x and of w; gradients and the update as in fp32."""
    plain, rounded = (
        {layer.name: layer.nbytes for layer in traffic.step(SMALL, 2, name).layers} for name in ("fp32", "int8")
    )
    for layer in SMALL.layers[1:]:
        more = tuple(one - other for one, other in zip(rounded[layer.name], plain[layer.name], strict=True))
        numbers = 0
        if isinstance(layer.op, Conv | Dense):
            numbers = 2 * prod(SMALL.shapes[layer.inputs[0]]) + SMALL.weights[layer.name]
        assert more == (2 * numbers, 0, 0), layer.name
    assert traffic.step(SMALL, 2, "int8").update == traffic.step(SMALL, 2).update


def test_a_step_needs_room_for_a_rounded_map_and_the_checks_for_each_sum() -> None:
    graph = networks.build("resnet8", (28, 28), 1, 10)
    plain, rounded = (memory(graph, {**SETTINGS, "PRECISION": name}, FACTS) for name in ("fp32", "int8"))
    largest = 4 * BATCH * 16 * 28 * 28
    assert plain["step"] + largest < rounded["step"] < plain["step"] + 3 * largest
    assert rounded["residuals"] > 1.5 * plain["residuals"]
    same = ("data", "weights", "optimiser", "buckets", "batches")
    assert [rounded[name] for name in same] == [plain[name] for name in same]


@pytest.mark.parametrize("squares", [True, False])
def test_it_is_never_held_against_ceilings_of_fp32(squares: bool) -> None:
    stored = golden()
    case, raw = cases_of(stored)[0], stored["tests"][0]["raw"]
    settings = {**case.settings, "PRECISION": "int8"}
    measured = raw_of(case_of("resnet8", *(["64"] if squares else [])))
    table = {"index": 1, "workload": "kernels", "settings": {}, "raw": measured}
    wrong = {**raw["residuals"], "wrong": {"value": 0, "where": "nowhere"}}
    probed = {**raw, "residuals": wrong, "probe": {"fp32_seconds": 2.0, "seconds": 1.0, "converted": False}}
    test = results.judge(type(case)(1, case.workload, settings), probed, [], [table])
    found = test["scores"]["roofline"]
    assert found["sources"]["kernels"]["type"] == "int8"
    assert (found["ceilings"]["gemm"] is not None) == squares
    assert [found["ceilings"][name] for name in ("convolution", "compute", "attainable")] == [None] * 3
    assert not list(violations(found, ROOFLINE))
    (line,) = (line for line in lines(test) if "share of the convolution ceiling, int8=" in line)
    assert "not measured" in line
    assert test["status"] == "INVALID" and test["reasons"][0] == "precision 8 bits, official at least 16"


def test_a_choice_of_kernels_is_refused() -> None:
    assert "forward products are ours anyway; allowed: vendor, custom" in _refused_choice("auto", "off", "int8")
    assert _refused_choice("custom", "torch", "int8") == _refused_choice("auto", "off", "bf16") == ""

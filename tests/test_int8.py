"""PRECISION int8 in networks, plans and ceilings: quantised layers, bytes moved, memory, and refused settings."""

from math import prod
from typing import Any

import pytest
import torch
from examples.training import PROBED, rebuilt, stored
from sample_kernel_rows import case_of, raw_of
from sample_records import MEMORY
from test_estimate import BATCH, FACTS, SETTINGS
from test_traffic import SMALL
from torch import nn
from torch.nn.functional import cross_entropy

from hpcai import networks
from hpcai.estimate import memory
from hpcai.models.build import build as built
from hpcai.models.module import build
from hpcai.networks.layers import Conv, Dense
from hpcai.opcount import traffic
from hpcai.preflight.case_checks import _refused_choice
from hpcai.report.lines import labelled
from hpcai.report.roofline import notes
from hpcai.results.alterations import changed
from hpcai.results.measured import Before, Measured
from hpcai.train import precision, quantised
from hpcai.train.providers import use_custom, use_vendor
from hpcai.workloads.ensemble import checks
from hpcai.workloads.kernels import checks as tables

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")


def layers(module: nn.Module) -> list[nn.Module]:
    return [part for part in module.modules() if isinstance(part, nn.Conv2d | nn.Linear)]


def gradients(module: nn.Module) -> list[Any]:
    x = torch.randn(4, 3, 20, 20, generator=torch.Generator().manual_seed(1))
    loss = cross_entropy(module(x), torch.arange(4))
    return [loss, *torch.autograd.grad(loss, list(module.parameters()))]


def test_every_product_of_a_classifier_and_of_a_detector_is_quantised() -> None:
    for module in (
        build(networks.build("resnet8", (20, 20), 3, 10), 1),
        built(networks.build("fasterrcnn8", (48, 72), 16, 2), 1),
    ):
        assert not any(map(quantised.is_quantised, layers(module)))
        precision.apply("int8", module, CPU)
        assert layers(module) and all(map(quantised.is_quantised, layers(module)))


def test_kernels_custom_changes_the_gradients_alone() -> None:
    module = build(networks.build("resnet8", (20, 20), 3, 10), 1)
    precision.apply("int8", module, CPU)
    vendors = gradients(module)
    use_custom(module)
    assert all(map(quantised.is_quantised, layers(module)))
    assert {part.forward.args[1] for part in layers(module)} == {frozenset({"forward", *quantised_directions()})}
    for own, right in zip(gradients(module), vendors, strict=True):
        torch.testing.assert_close(own, right, rtol=0.1, atol=0.05)
    use_vendor(module)
    assert {part.forward.args[1] for part in layers(module)} == {frozenset()}
    assert torch.equal(gradients(module)[0], vendors[0])


def quantised_directions() -> tuple[str, ...]:
    return "input_gradient", "weight_gradient"


def test_the_traffic_of_forward_products_includes_quantised_copies() -> None:
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


def test_memory_of_a_step_includes_a_rounded_map_and_of_checks_each_sum() -> None:
    graph = networks.build("resnet8", (28, 28), 1, 10)
    plain, rounded = (memory(graph, {**SETTINGS, "PRECISION": name}, FACTS) for name in ("fp32", "int8"))
    largest = 4 * BATCH * 16 * 28 * 28
    assert plain["step"] + largest < rounded["step"] < plain["step"] + 3 * largest
    assert rounded["residuals"] > 1.5 * plain["residuals"]
    same = ("data", "weights", "optimiser", "buckets", "batches")
    assert [rounded[name] for name in same] == [plain[name] for name in same]


@pytest.mark.parametrize("squares", [True, False])
def test_int8_is_never_compared_with_ceilings_of_fp32(squares: bool) -> None:
    wrong = changed("raw.preparation.residuals.wrong", {"value": 0, "where": "nowhere"})
    entry = rebuilt(stored("ensemble")[0], wrong, PROBED, PRECISION="int8")
    shapes = case_of("resnet8", *(["64"] if squares else []))
    raw = raw_of(shapes)
    before = Before(tables=[tables.build(shapes, Measured(raw, MEMORY), Before())], kernels=tables.rows(shapes, raw))
    test = checks.build(entry.case, Measured(entry.entry.raw, entry.entry.memory), before)
    found = test.scores.roofline
    assert found.kernels is not None and found.kernels.type == "int8"
    assert (found.ceilings.gemm is not None) == squares
    assert (found.ceilings.convolution, found.ceilings.compute, found.ceilings.attainable) == (None, None, None)
    (line,) = (line for line in labelled(found) if "share of the convolution ceiling=" in line)
    assert "not measured" in line
    assert any(note.endswith("type int8") for note in notes(found, one_rank=True))
    assert test.status == "INVALID" and test.reasons[0] == "precision 8 bits, official at least 16"


def test_a_choice_of_kernels_is_refused() -> None:
    assert "forward products are always custom; allowed: vendor, custom" in _refused_choice("auto", "off", "int8")
    assert _refused_choice("custom", "torch", "int8") == _refused_choice("auto", "off", "bf16") == ""

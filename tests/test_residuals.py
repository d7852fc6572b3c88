"""The provider's check: every layer shape is checked whatever the number of ranks, and the worst result is reported."""

import math
from dataclasses import replace
from typing import Any

import pytest
from tiny import CLASSES, CPU, GRAPH, SHAPE

from hpcai.inputfile.split import Cut
from hpcai.kernels.arithmetic import BF16, FP16, FP32, Arithmetic
from hpcai.kernels.conv2d import Shape as ConvolutionShape
from hpcai.kernels.gemm import Shape as ProductShape
from hpcai.kernels.residual import ELEMENTWISE_LIMIT, Residuals
from hpcai.kernels.spec import DIRECTIONS, FORWARD, WEIGHT_GRADIENT
from hpcai.networks import build
from hpcai.networks.graph import Graph, Layer
from hpcai.networks.layers import Conv, Dense, GlobalPool, Input, Relu
from hpcai.networks.tensor_parallel import tensor_part
from hpcai.opcount.products import shapes_of
from hpcai.preflight import residuals
from hpcai.preflight.layer_products import products, products_of_parts
from hpcai.preflight.residuals import LARGEST, worst_residuals
from hpcai.record.preflight import Worst

BATCH = 6


def test_products_of_a_network_are_its_layers_in_order() -> None:
    channels, height, width = SHAPE
    same = ((3, 3), (1, 1), (1, 1), (1, 1), 1)
    assert products(GRAPH, BATCH) == [
        (ConvolutionShape(BATCH, channels, height, width, 4, *same), (FORWARD, WEIGHT_GRADIENT)),
        (ConvolutionShape(BATCH, 4, height, width, 4, *same), DIRECTIONS),
        (ConvolutionShape(BATCH, 4, height, width, 6, (3, 3), (2, 2), (0, 0), (1, 1), 1), DIRECTIONS),
        (ProductShape(BATCH, 6, CLASSES), DIRECTIONS),
    ]


def test_equal_shapes_are_checked_once_but_with_all_their_directions() -> None:
    conv = Conv(3, (3, 3), (1, 1), (1, 1))
    layers = [Layer("image", Input((3, 5, 5))), Layer("first", conv, ("image",))]
    layers += [Layer("second", conv, ("first",)), Layer("third", conv, ("second",)), Layer("relu", Relu(), ("third",))]
    layers += [Layer("pool", GlobalPool(), ("relu",)), Layer("dense", Dense(2), ("pool",))]
    found = products(Graph(tuple(layers)), BATCH)
    assert [directions for _, directions in found] == [(FORWARD, WEIGHT_GRADIENT), DIRECTIONS, DIRECTIONS]
    assert found[0][0] == found[1][0]


@pytest.mark.parametrize(("name", "shapes"), [("resnet20", 9), ("resnet50", 24)])
def test_networks_have_fewer_shapes_than_layers(name: str, shapes: int) -> None:
    graph = build(name, (32, 32), 3, 10)
    layers = sum(isinstance(layer.op, Conv | Dense) for layer in graph.layers)
    found = products(graph, BATCH)
    assert len(found) == len(set(found)) < layers
    assert len(found) == shapes
    assert [WEIGHT_GRADIENT in directions for _, directions in found] == [True] * shapes
    assert [directions for _, directions in found].count((FORWARD, WEIGHT_GRADIENT)) == 1


def test_products_of_parts_are_those_that_their_ranks_execute() -> None:
    graph = build("resnet8", (28, 28), 1, 10)
    found = products_of_parts(graph, Cut(1, 3, BATCH))
    executed = [[*shapes_of(tensor_part(graph, shard, 3).graph, BATCH)] for shard in range(3)]
    assert set(found) == {each for part in executed for each in part}
    assert list(found)[: len(set(executed[0]))] == list(dict.fromkeys(executed[0]))
    assert all(found[own] == first for part in executed for own, first in zip(part, executed[0], strict=True))
    assert {shape.filters for shape, _ in executed[0][:1]} == {5} != {shape.filters for shape, _ in executed[2][:1]}


@pytest.mark.parallel(4)
def test_every_shape_is_checked_on_some_rank_and_all_ranks_know_the_worst(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    graph = build("resnet8", (28, 28), 1, 10)
    expected = products(graph, BATCH)
    scaled = {product: float(index) for index, product in enumerate(expected)}
    elementwise = {product: -float(index) for index, product in enumerate(expected)}
    elementwise[expected[1]] = math.inf
    checked: list[Any] = []

    def check(product: Any, device: Any, seed: int, arithmetic: Any, custom: Any) -> tuple[Residuals, ...]:
        checked.append(product)
        kernel = "conv2d" if isinstance(product[0], ConvolutionShape) else "gemm"
        result = Residuals(kernel, FORWARD, product[0], BATCH, 9, scaled[product], elementwise[product])
        return replace(result, scaled=-1.0), result

    monkeypatch.setattr(residuals, "check", check)
    for size in range(1, world.size + 1):
        comm = world.Split(0 if world.rank < size else MPI.UNDEFINED, world.rank)
        if comm == MPI.COMM_NULL:
            continue
        checked.clear()
        worst = worst_residuals(graph, Cut(samples=BATCH), comm, CPU, 1)
        everyones = comm.allgather(checked)
        assert all(everyones)
        assert set(sum(everyones, [])) == set(expected)
        assert max(map(len, everyones)) <= math.ceil(len(expected) / size)
        where = "gemm forward 6x64 by 10x64, 6 images checked"
        assert worst.scaled == Worst(value=len(expected) - 1.0, where=where)
        assert worst.elementwise.value == LARGEST
        assert comm.allgather(worst) == [worst] * size
        comm.Free()


@pytest.mark.parametrize("arithmetic", [FP32, FP16, BF16], ids=lambda arithmetic: arithmetic.name)
def test_torchs_own_products_pass(arithmetic: Arithmetic) -> None:
    from mpi4py import MPI

    worst = worst_residuals(GRAPH, Cut(samples=BATCH), MPI.COMM_SELF, CPU, 1, arithmetic)
    assert 0 < worst.scaled.value < 16
    assert 0 < worst.elementwise.value < ELEMENTWISE_LIMIT
    assert "conv2d" in worst.elementwise.where or "gemm" in worst.elementwise.where

"""LARS and LAMB: custom kernels and torch's operators against float64, for any size, threads and zero norms."""

from typing import Any

import numpy as np
import pytest
import torch

from hpcai.kernels.layerwise import Lamb, Lars, numba_cpu, reference
from hpcai.train.layerwise import Lamb as TorchLamb
from hpcai.train.layerwise import Lars as TorchLars
from hpcai.train.layerwise import Layerwise

LARS = {
    "adapted": Lars(0.1, 0.01, 0.9, 0.02),
    "without decay": Lars(0.1, 0.0, 0.9, 0.02, scale=64.0),
    "vectors": Lars(0.1, 0.0, 0.9, 0.0),
}
LAMB = {
    "adapted": Lamb(0.1, 0.01, 0.9, 0.999, 1e-6, 3, True),
    "first update": Lamb(0.1, 0.0, 0.9, 0.99, 1e-6, 1, True, scale=128.0),
    "vectors": Lamb(0.1, 0.0, 0.9, 0.999, 1e-6, 40, False),
}
SIZES = (1, 7, 1000, 100_003)


def drawn(n: int, *zero: int) -> list[Any]:
    """Weights, gradients, first and second moment; those of these numbers are 0."""
    random = np.random.default_rng(n)
    vectors = [random.standard_normal(n).astype(np.float32) for _ in range(4)]
    vectors[3] = np.abs(vectors[3])
    for number in zero:
        vectors[number][:] = 0
    return vectors


def equal(found: Any, expected: Any) -> None:
    """Within some roundings of fp32 in each of the numbers that are added, which are of order 1."""
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-6, atol=2e-6 * max(1.0, float(np.abs(other).max())))


@pytest.mark.parametrize("zero", [(), (0,), (1,)], ids=["", "zero weights", "zero gradients"])
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("n", SIZES)
def test_kernels_equal_the_formulas(n: int, threads: int, zero: tuple[int, ...]) -> None:
    for numbers in LARS.values():
        w, g, v, _ = drawn(n, *zero)
        expected = reference.lars(w, g, v, numbers)
        numba_cpu.lars(w, g, v, numbers, threads)
        equal((w, v), expected)
    for number in LAMB.values():
        w, g, m, v = drawn(n, *zero)
        updated = reference.lamb(w, g, m, v, number)
        numba_cpu.lamb(w, g, m, v, number, threads)
        equal((w, m, v), updated)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("n", SIZES[1:])
def test_a_shard_moves_as_its_part_of_the_tensor(n: int, threads: int) -> None:
    """By the squared norms of the whole tensor: those of two shards together."""
    shards = (slice(0, n // 3), slice(n // 3, n))
    for numbers in LARS.values():
        (w, g, v, _), found = drawn(n), drawn(n)
        own = [numba_cpu.square_sums(w[part], g[part], threads) for part in shards]
        for part in shards:
            numba_cpu.lars(*(each[part] for each in found[:3]), numbers, threads, added(own))
        equal((found[0], found[2]), reference.lars(w, g, v, numbers))
    for number in LAMB.values():
        found = drawn(n)
        own = [numba_cpu.lamb_moments(*(each[part] for each in found), number, threads) for part in shards]
        for part in shards:
            numba_cpu.lamb_weights(*(found[each][part] for each in (0, 2, 3)), number, threads, added(own))
        equal((found[0], *found[2:]), reference.lamb(*drawn(n), number))


def added(squares: list[tuple[float, float]]) -> tuple[float, float]:
    return squares[0][0] + squares[1][0], squares[0][1] + squares[1][1]


def stepped(optimiser: type[Layerwise], general: bool, dtype: torch.dtype = torch.float32) -> list[Any]:
    """Weights and state after four steps of a convolution and a bias, on the host or by torch's operators."""
    random = torch.Generator().manual_seed(5)
    shapes = [(8, 4, 3, 3), (8,)]
    weights = [torch.randn(shape, generator=random).to(dtype).requires_grad_() for shape in shapes]
    weights[0] = weights[0].detach().to(memory_format=torch.channels_last).requires_grad_()
    groups = [{"params": [weight], "weight_decay": 0.01 * (weight.ndim > 1)} for weight in weights]
    options: Any = {"betas": (0.9, 0.99), "eps": 1e-6} if optimiser is TorchLamb else {"momentum": 0.9, "trust": 0.1}
    made = optimiser(groups, lr=0.1, **options)
    if general:
        made.on_host = lambda group, step, scale: made.on_device(group, step.unscaled())  # type: ignore[method-assign]
    for _ in range(4):
        for weight in weights:  # in another order in memory than the weights
            weight.grad = torch.randn(weight.shape, generator=random).to(dtype)
        made.step()
    return [*weights, *(value for kept in made.state.values() for value in kept.values())]


@pytest.mark.parametrize("optimiser", [TorchLars, TorchLamb])
def test_torchs_operators_and_the_kernels_agree(optimiser: type[Layerwise]) -> None:
    for one, other in zip(stepped(optimiser, False), stepped(optimiser, True), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("optimiser", [TorchLars, TorchLamb])
def test_state_of_16_bit_weights_is_in_fp32(optimiser: type[Layerwise]) -> None:
    weights, state = (stepped(optimiser, False, torch.bfloat16)[part] for part in (slice(2), slice(2, None)))
    assert {weight.dtype for weight in weights} == {torch.bfloat16}
    assert {value.dtype for value in state} == {torch.float32}

"""The two residuals: their formulas by hand, values that never pass, and planted faults at shapes of real layers."""

import math
from functools import partial

import numpy as np
import pytest
import torch

from hpcai.kernels import conv2d
from hpcai.kernels.arithmetic import BF16, FP16, FP32, TF32, Arithmetic  # fmt: skip
from hpcai.kernels.check import by_autograd, converts, draw, rounded
from hpcai.kernels.conv2d import reference, vendor
from hpcai.kernels.residual import ELEMENTWISE_LIMIT, measure, signs
from hpcai.kernels.spec import DIRECTIONS, FORWARD, INPUT_GRADIENT, Block, fp32_tolerance

LAYERS = [
    conv2d.Shape(32, 1, 28, 28, 16, (3, 3), (1, 1), (1, 1)),
    conv2d.Shape(4, 16, 28, 28, 32, (3, 3), (2, 2), (1, 1)),
    conv2d.Shape(8, 64, 7, 7, 64, (3, 3), (1, 1), (1, 1)),
    conv2d.Shape(1, 3, 64, 64, 64, (7, 7), (2, 2), (3, 3)),
    conv2d.Shape(2, 512, 7, 7, 64, (3, 3), (1, 1), (1, 1)),
    conv2d.Shape(4, 64, 14, 14, 128, (1, 1), (2, 2)),
]


def exact(m: int = 20, k: int = 30, n: int = 10) -> Block:
    generator = np.random.default_rng(1)
    L, R = generator.standard_normal((m, k)), generator.standard_normal((k, n))
    return Block(L, R, L @ R)


def test_signs_are_a_function_of_length_and_seed():
    x = signs(1000, seed=5)
    assert set(x) == {-1.0, 1.0}
    assert 400 < (x > 0).sum() < 600
    np.testing.assert_array_equal(x, signs(1000, seed=5))
    assert (x != signs(1000, seed=6)).any()


def test_the_scaled_residual_is_hpls_formula():
    block = exact()
    block.C[3, 4] += 0.5
    x = signs(10, seed=7)
    b = block.L @ (block.R @ x)
    norm_A = max(sum(abs(element) for element in row) for row in block.C)
    expected = max(abs(block.C @ x - b)) / (2.0**-24 * (norm_A * 1.0 + max(abs(b))) * 30)
    assert measure([block], 30, fp32_tolerance(30), seed=7)[0] == pytest.approx(expected, rel=1e-12)


def test_the_elementwise_residual_is_its_formula():
    block = exact()
    block.C[3, 4] += 1e-6
    root = math.sqrt(sum((block.L[3, k] * block.R[k, 4]) ** 2 for k in range(30)))
    expected = 1e-6 / (8.0 * math.sqrt(30) * 2.0**-24 * root)
    assert measure([block], 30, fp32_tolerance(30), seed=7)[1] == pytest.approx(expected, rel=1e-6)


def test_blocks_have_the_residual_of_their_stack():
    whole = exact()
    whole.C[17, 2] *= 1.001
    parts = [Block(whole.L[rows], whole.R, whole.C[rows]) for rows in (slice(0, 11), slice(11, 20))]
    tolerance = fp32_tolerance(30)
    assert measure(parts, 30, tolerance, 7) == pytest.approx(measure([whole], 30, tolerance, 7), rel=1e-12)


def test_exact_zeros_pass():
    zeros = Block(np.zeros((4, 3)), np.ones((3, 2)), np.zeros((4, 2)))
    assert measure([zeros], 3, fp32_tolerance(3), 1) == (0.0, 0.0)
    zeros.C[2, 1] = 1e-30
    assert measure([zeros], 3, fp32_tolerance(3), 1)[1] == math.inf


@pytest.mark.parametrize("matrix", ["L", "R", "C"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_never_pass(matrix, value):
    good, bad = exact(), exact()
    getattr(bad, matrix)[1, 1] = value
    assert measure([good, bad, good], 30, fp32_tolerance(30), 1) == (math.inf, math.inf)


def test_an_empty_check_never_passes():
    assert measure([], 30, fp32_tolerance(30), 1) == (math.inf, math.inf)


def computed(shape: conv2d.Shape, direction: str, arithmetic: Arithmetic = FP32) -> Block:
    """The provider's product of a layer as one block."""
    data = draw(shape, 2, arithmetic)
    compute = partial(vendor.convolve, bias=None, converted=converts("cpu", arithmetic))
    run = partial(by_autograd, data, shape, "cpu", (direction,), arithmetic.stored)
    out = run(layer=lambda x, w, shape: compute(x, w, shape=shape))[direction]
    parts = list(reference.blocks(direction, data, out, shape))
    L, C = (np.concatenate([getattr(part, name) for part in parts]) for name in ("L", "C"))
    return Block(L, parts[0].R, C)


def fullest_row(block: Block) -> int:
    """A row whose sum has terms despite padding and stride."""
    return int(np.abs(block.L).sum(axis=1).argmax())


def element_zeroed(block: Block) -> None:
    block.C[fullest_row(block), -1] = 0.0


def tile_zeroed(block: Block) -> None:
    block.C[-16:, -16:] = 0.0


def last_term_dropped(block: Block) -> None:
    block.C[:] -= block.L[:, -1:] @ block.R[-1:]


def element_of_the_next_row(block: Block) -> None:
    row = 1 + int(np.abs(np.diff(block.C[:, 0])).argmax())
    block.C[row, 0] = block.C[row - 1, 0]


def element_nan(block: Block) -> None:
    block.C[-1, -1] = math.nan


FAULTS = [element_zeroed, tile_zeroed, last_term_dropped, element_of_the_next_row, element_nan]


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    ("shape", "arithmetic"),
    [*((shape, FP32) for shape in LAYERS), *((shape, kind) for shape in LAYERS[1:3] for kind in (TF32, FP16, BF16))],
    ids=lambda value: "x".join(map(str, value.x[1:] + value.w)) if isinstance(value, conv2d.Shape) else value.name,
)
def test_planted_faults_are_detected(shape, arithmetic, direction):
    inner = shape.inner(direction)
    clean = computed(shape, direction, arithmetic)

    def value(block: Block) -> float:
        return measure([block], inner, fp32_tolerance(inner), 1, arithmetic)[1]

    assert 0.0 < value(clean) < 0.6 * ELEMENTWISE_LIMIT
    for fault in FAULTS:
        faulty = Block(clean.L, clean.R, clean.C.copy())
        fault(faulty)
        assert value(faulty) > 10.0 * ELEMENTWISE_LIMIT, fault.__name__


@pytest.mark.parametrize("kind", [TF32, FP16, BF16], ids=lambda kind: kind.name)
def test_rounding_is_to_nearest_even_with_the_bits_of_the_type(kind):
    ulp = 2.0 ** (1 - kind.significand)
    values = np.array([1.0, 1 + ulp / 2, 1 + 3 * ulp / 2, 1 + 0.51 * ulp, -1 - 0.49 * ulp, 2 - ulp / 4, 0], np.float32)
    expected = [1.0, 1.0, 1 + 2 * ulp, 1 + ulp, -1.0, 2.0, 0.0]
    np.testing.assert_array_equal(rounded(values, kind), np.array(expected, np.float32))
    drawn = np.random.default_rng(3).standard_normal(20_000, dtype=np.float32)
    if kind.stored != "float32":
        stored = torch.from_numpy(drawn).to(getattr(torch, kind.stored)).float().numpy()
        np.testing.assert_array_equal(rounded(drawn, kind), np.where(np.abs(drawn) < kind.normal, 0, stored))


def test_sums_of_16_bits_are_distinguished_from_sums_of_32():
    """torch's own fp16 convolution rounds partial sums if the processor has no fp16: it must not pass."""
    shape = LAYERS[1]
    data = draw(shape, 2, FP16)
    parts = reference.blocks(FORWARD, data, np.zeros(shape.y, np.float32), shape)
    block = next(parts)
    terms = (block.L[:, :, None] * block.R[None]).astype(np.float16)
    total = np.add.accumulate(terms, 1, dtype=np.float16)[:, -1]
    inner = shape.inner(FORWARD)
    assert measure([Block(block.L, block.R, total.astype(float))], inner, fp32_tolerance(inner), 1, FP16)[1] > 10.0


def test_the_scaled_residual_uses_the_roundoff_of_the_stored_type():
    block = exact()
    block.C[3, 4] += 0.5
    fp32, fp16, bf16 = (measure([block], 30, fp32_tolerance(30), 7, kind)[0] for kind in (FP32, FP16, BF16))
    assert (fp32 / fp16, fp32 / bf16) == (2.0**13, 2.0**16)


def test_the_smallest_numbers_are_rounded_to_their_fixed_distance():
    block = Block(np.full((1, 1), 2.0**-10), np.full((1, 1), 1.25 * 2.0**-14), np.zeros((1, 1)))
    block.C[:] = np.float16(block.L @ block.R)
    assert block.C[0, 0] != (block.L @ block.R)[0, 0]
    assert 0 < measure([block], 1, fp32_tolerance(1), 1, FP16)[1] < ELEMENTWISE_LIMIT


def test_a_value_where_no_term_exists_fails():
    shape = LAYERS[-1]
    block = computed(shape, INPUT_GRADIENT)
    row = int(np.flatnonzero(~block.L.any(axis=1))[0])
    block.C[row, 0] = 1e-20
    assert measure([block], shape.inner(INPUT_GRADIENT), fp32_tolerance(1), 1)[1] == math.inf


def test_the_elementwise_residual_detects_errors_that_the_scaled_one_passes():
    block = computed(LAYERS[4], FORWARD)
    element_zeroed(block)
    values = measure([block], 4608, fp32_tolerance(4608), 1)
    assert values[0] < 16.0 < values[1]

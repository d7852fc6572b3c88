"""Attention of a GPU without one: its kernels run on the host under every schedule, and as a function of torch."""

from typing import Any

import numpy as np
import pytest
import torch
from attention_on_host import computed, from_bits, heads, on_host, residual, to_bits
from cuda_on_host import SCHEDULES, run
from sampled_parameters import one_in
from torch import Tensor
from torch.nn import functional

from hpcai.kernels import rms_norm
from hpcai.kernels.arithmetic import BF16, FP16, FP32
from hpcai.kernels.arrays import aligned
from hpcai.kernels.attention import PASSES, Shape, cupy_gpu, reference
from hpcai.kernels.attention.cupy_gpu import SIDE
from hpcai.kernels.cuda.architecture import CUBIN, Target
from hpcai.kernels.operators import sequences, sequences_on_gpu
from hpcai.kernels.providers import Unavailable, backend
from hpcai.kernels.rms_norm import cupy_gpu as norms
from hpcai.kernels.spec import FORWARD
from hpcai.kernels.verify import drawn
from hpcai.models.sequence_layers import EPSILON, rotated, rotations

PLACES = (1, SIDE - 1, SIDE, SIDE + 1, 2 * SIDE + 5)
SHAPES = [Shape(1 + places % 2, 1 + places % 3, places) for places in PLACES]
SHAPES += [Shape(2, 2, 70, 128), Shape(1, 1, 130, 192)]
ARITHMETIC = {each.name: each for each in (FP32, FP16, BF16)}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("spread", [1.0, 4.0], ids=["as drawn", "with sharp maxima"])
@pytest.mark.parametrize("direction", PASSES)
@pytest.mark.parametrize("dtype", cupy_gpu.TYPES)
@pytest.mark.parametrize("shape", one_in(4, SHAPES), ids=lambda shape: shape.text(FORWARD))
def test_every_element_is_within_its_bound(
    shape: Shape, dtype: str, direction: str, spread: float, schedule: str
) -> None:
    data = drawn(shape, dtype, 1)
    data = data._replace(x=aligned(np.float32(spread) * data.x))
    found = residual(shape, direction, data, computed(shape, direction, data, schedule))
    assert found < (0.5 if dtype == "fp32" else 1.0)


def test_results_are_the_same_in_every_order_of_the_threads() -> None:
    shape = Shape(1, 2, 2 * SIDE + 9, 128)
    data = drawn(shape, "fp32", 6)
    for direction in PASSES:
        first, *others = (computed(shape, direction, data, schedule) for schedule in SCHEDULES)
        assert all(np.array_equal(first, other) for other in others)


def test_what_is_not_a_number_stays_so() -> None:
    shape = Shape(1, 1, SIDE + 40)
    data = drawn(shape, "fp32", 3)
    data.x[0, 0, 0, 20, 3] = np.nan
    bad = np.isnan(computed(shape, FORWARD, data, SCHEDULES[0])[0, 0]).all(axis=1)
    assert bad.tolist() == [row == 20 for row in range(shape.places)]


@pytest.mark.parametrize("dtype", cupy_gpu.TYPES)
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("in_place", [False, True])
def test_rotations_are_exact_to_rounding(backwards: bool, in_place: bool, dtype: str) -> None:
    shape = Shape(2, 3, SIDE + 9)
    drawn = np.random.default_rng(4).standard_normal((2, *shape.y), np.float32)
    source = aligned(to_bits(drawn, dtype))
    target = source.copy() if in_place else aligned(to_bits(np.full_like(drawn, np.nan), dtype))
    cosines, sines = (each.numpy() for each in rotations(shape.places, torch.float32, torch.device("cpu")))
    right = reference.rotated(from_bits(source, dtype).astype(np.float64), cosines, -sines if backwards else sines)
    given = heads(target if in_place else source), heads(target), (cosines.ctypes.data, sines.ctypes.data)
    run(cupy_gpu.rotation(shape, *given, backwards, dtype), SCHEDULES[0])
    allowed = right.allowed + ARITHMETIC[dtype].roundoff * (np.abs(right.exact) + right.allowed)
    assert (np.abs(from_bits(target, dtype) - right.exact) <= allowed).all()


def compared(function: Any, exact: Any, *operands: Tensor) -> None:
    """The results and gradients of a function of torch beside those of another one in float64."""
    wide = [each.detach().double().requires_grad_() for each in operands]
    found, right = function(*operands), exact(*wide)
    g = torch.randn(found.shape)
    made = (found, *torch.autograd.grad(found, operands, g))
    for one, other in zip(made, (right, *torch.autograd.grad(right, wide, g.double())), strict=True):
        assert (one - other).abs().max() < 1e-5 * other.abs().max()


@pytest.mark.parametrize("places", [7, SIDE + 1])
def test_the_function_of_torch_rotates_and_attends_as_torch_does(places: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def exact(x: Tensor) -> Tensor:
        q, k, v = x.view(2, places, 3, 2, 64).permute(2, 0, 3, 1, 4)
        right = functional.scaled_dot_product_attention(rotated(q), rotated(k), v, is_causal=True)
        return right.transpose(1, 2).reshape(2, places, 128)

    with on_host(monkeypatch) as ran:
        x = torch.randn(2, places, 3 * 128, requires_grad=True)
        compared(lambda x: sequences.attention(x, 64, *rotations(places, x.dtype, x.device)), exact, x)
    assert [each.program.name for each in ran] == ["rotate", "forward", "means", "of_keys", "of_queries", "rotate"]


def test_the_norm_of_torch_is_as_torch_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def exact(x: Tensor, weight: Tensor) -> Tensor:
        return functional.rms_norm(x, weight.shape, weight, EPSILON)

    with on_host(monkeypatch) as ran:
        x, weight = torch.randn(3, 50, 128, requires_grad=True), torch.randn(128, requires_grad=True)
        compared(lambda x, weight: sequences.rms_norm(x, weight, EPSILON), exact, x, weight)
        with pytest.raises(RuntimeError, match="allowed: a weight a feature, in whole vectors"):
            sequences.rms_norm(torch.randn(3, 17), torch.ones(17), EPSILON)
    assert [each.program.name for each in ran] == ["forward", "gradients", "add_blocks"]


def test_tensors_that_vectors_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="allowed: contiguous rows at multiples of 16 bytes"):
        cupy_gpu.heads_of(torch.empty(1, 1, 3, 66)[..., 1:65])
    with pytest.raises(ValueError, match="allowed: contiguous"):
        cupy_gpu.heads_of(torch.empty(1, 1, 64, 3).transpose(2, 3))
    with pytest.raises(ValueError, match="x is torch.float64"):
        norms.forward(rms_norm.Shape(2, 4), EPSILON, x=torch.empty(2, 4).double())


def test_what_has_no_kernel_is_refused() -> None:
    with pytest.raises(Unavailable, match="attention needs a GPU of compute capability 8.0 or newer"):
        cupy_gpu.programs(Target("sm_75", CUBIN, (7, 5)))
    shape = Shape(1, 1, 4)
    with pytest.raises(Unavailable, match="attention in int8 on GPUs; there are fp32, fp16, bf16"):
        cupy_gpu.prepare(shape, FORWARD, drawn(shape, "int8", 1), "cuda:0", 1)


def test_sequences_of_gpus_have_custom_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    for capability, there in (((8, 0), True), ((7, 5), False)):
        monkeypatch.setattr(sequences_on_gpu, "target_of", lambda device, own=capability: Target("a GPU", CUBIN, own))
        sequences_on_gpu.supports.cache_clear()
        assert sequences_on_gpu.supports(torch.device("cuda", 0)) == there
    sequences_on_gpu.supports.cache_clear()
    assert backend(rms_norm.SPEC, "custom", "cuda") is norms
    assert sequences.BACKENDS["cuda"] == "sequences_on_gpu"
    assert [norms.applies(features) for features in (0, 2, 4, 2048, 12280, 12284)] == [False, False, *[True] * 3, False]

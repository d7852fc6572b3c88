"""Custom attention and RMS norm on a GPU: right, the same in every run, on the caller's stream, as torch's are."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from hpcai.kernels import attention, verify
from hpcai.kernels.attention import PASSES, Shape
from hpcai.kernels.operators import sequences
from hpcai.kernels.providers import CUSTOM, VENDOR, backend
from hpcai.kernels.residual import worst
from hpcai.kernels.rms_norm import reference as norm_reference
from hpcai.kernels.spec import FORWARD
from hpcai.models.sequence_layers import EPSILON, rotated, rotations

NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="NO GPU: attention.cu, rms_norm.cu NOT RUN ON ONE")
SHAPES = [
    Shape(1, 1, 1),
    Shape(2, 3, 63),
    Shape(3, 2, 130),
    Shape(1, 2, 301, 128),
    Shape(2, 8, 1024),
    Shape(1, 1, 4097),
]


@NEEDS_GPU
@pytest.mark.parametrize("provider", [CUSTOM, VENDOR])
@pytest.mark.parametrize("direction", PASSES)
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.text(FORWARD))
def test_attention_is_right_and_ours_the_same_in_every_run(
    shape: Shape, dtype: str, direction: str, provider: str
) -> None:
    data = verify.drawn(shape, dtype, 5)
    (way,) = backend(attention.SPEC, provider, "cuda").prepare(shape, direction, data, "cuda:0", 1)
    for number in range(3):
        way.poison_result()
        way.call()
        if number == 0:
            before = way.result().tobytes()
            assert verify.residual(attention.SPEC, shape, direction, dtype, data, way) <= 1
        assert provider == VENDOR or way.result().tobytes() == before


@NEEDS_GPU
@pytest.mark.parametrize(("rows", "features"), [(1, 4), (1000, 64), (333, 260), (4099, 768), (2048, 2048), (3, 12280)])
def test_the_norm_is_right_and_the_same_in_every_run(rows: int, features: int) -> None:
    generator = torch.Generator("cuda").manual_seed(rows)
    g, x, weight = (
        torch.randn(size, generator=generator, device="cuda")
        for size in (
            (rows, features),
            (rows, features),
            (features,),
        )
    )
    made = [gradients_of(lambda x, weight: sequences.rms_norm(x, weight, EPSILON), g, x, weight) for _ in range(3)]
    y, dx, dweight = (each.double().cpu().numpy() for each in made[0])
    wide = [each.double().cpu().numpy() for each in (g, x, weight)]
    parts = norm_reference.compared_gradients(dx, dweight, *wide, EPSILON)
    assert worst([norm_reference.compared(y, *wide[1:], EPSILON), *parts]) <= 1
    assert all(torch.equal(one, other) for again in made[1:] for one, other in zip(made[0], again, strict=True))


@NEEDS_GPU
def test_a_sum_and_its_norm_are_as_torch_has_them() -> None:
    x, other, beside, g = (torch.randn(3, 333, 768, device="cuda") for _ in range(4))
    weight = torch.randn(768, device="cuda")

    def both(x: Tensor, other: Tensor, weight: Tensor) -> Tensor:
        return torch.stack(sequences.added_norm(x, other, weight, EPSILON))

    def exact(x: Tensor, other: Tensor, weight: Tensor) -> Tensor:
        return torch.stack([x + other, functional.rms_norm(x + other, (768,), weight, EPSILON)])

    given = torch.stack([beside, g])
    right = gradients_of(exact, given.double(), x.double(), other.double(), weight.double())
    for one, wanted in zip(gradients_of(both, given, x, other, weight), right, strict=True):
        assert (one - wanted).abs().max() < 1e-5 * wanted.abs().max()


def gradients_of(function: Callable[..., Tensor], g: Tensor, *operands: Tensor) -> tuple[Tensor, ...]:
    """The result of a function, and the gradients of its operands."""
    wanted = [each.detach().requires_grad_() for each in operands]
    found = function(*wanted)
    return found.detach(), *torch.autograd.grad(found, wanted, g)


@NEEDS_GPU
@pytest.mark.parametrize(
    ("kind", "share"), [(torch.float32, 1e-5), (torch.float16, 2.0**-8), (torch.bfloat16, 2.0**-5)], ids=str
)
@pytest.mark.parametrize("places", [7, 130, 1000])
def test_the_function_of_torch_rotates_and_attends_as_torch_does(
    places: int, kind: torch.dtype, share: float
) -> None:
    def exact(x: Tensor) -> Tensor:
        q, k, v = x.view(2, places, 3, 2, 64).permute(2, 0, 3, 1, 4)
        right = functional.scaled_dot_product_attention(rotated(q), rotated(k), v, is_causal=True)
        return right.transpose(1, 2).reshape(2, places, 128)

    x, g = (torch.randn(2, places, width, device="cuda", dtype=kind) for width in (3 * 128, 128))
    made = gradients_of(lambda x: sequences.attention(x, 64, *rotations(places, torch.float32, x.device)), g, x)
    for one, other in zip(made, gradients_of(exact, g.double(), x.double()), strict=True):
        assert (one - other).abs().max() < share * other.abs().max()


@NEEDS_GPU
def test_what_is_not_a_number_stays_so() -> None:
    x = torch.randn(1, 104, 192, device="cuda")
    x[0, 20, 3] = torch.nan
    found = sequences.attention(x, 64, *rotations(104, x.dtype, x.device))
    assert np.flatnonzero(found.isnan().all(-1)[0].cpu()).tolist() == [20]


@NEEDS_GPU
def test_kernels_are_queued_on_the_current_stream_without_waiting() -> None:
    x, weight, stream = torch.randn(2, 130, 192, device="cuda"), torch.ones(192, device="cuda"), torch.cuda.Stream()

    def computed() -> Tensor:
        rows = sequences.rms_norm(x, weight, EPSILON)
        return sequences.attention(rows, 64, *rotations(130, x.dtype, x.device))

    wanted = computed()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(10**8)
        found = computed()
        assert not stream.query()
    stream.synchronize()
    assert torch.equal(found, wanted)

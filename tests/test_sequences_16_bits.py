"""Attention and RMS norm of rows in 16 bits, by custom kernels: as in fp32, but for rounding."""

from collections.abc import Callable

import pytest
import torch
from attention_on_host import on_host
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.profiler import profile

from hpcai import networks
from hpcai.kernels.attention.cupy_gpu import SIDE
from hpcai.kernels.operators import sequences
from hpcai.models.module import build
from hpcai.models.sequence_layers import EPSILON, CausalAttention, rotations
from hpcai.train import precision
from hpcai.train.providers import use_custom

SIXTEEN = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}  # and their unit roundoff
HEAD, PLACES, SYMBOLS = 64, 40, 32
CPU = torch.device("cpu")


def attended(x: Tensor) -> Tensor:
    return sequences.attention(x, HEAD, *rotations(x.shape[1], torch.float32, x.device))


def compared(function: Callable[[Tensor], Tensor], exact: Callable[[Tensor], Tensor], x: Tensor) -> float:
    """The worst difference of the result and the gradient from those in float64, in roundings of the largest number."""
    x, wide = x.requires_grad_(), x.detach().double().requires_grad_()
    found, right = function(x), exact(wide)
    g = torch.randn(found.shape).to(x.dtype)
    assert found.dtype == x.dtype
    (dx,), (right_dx,) = torch.autograd.grad(found, x, g), torch.autograd.grad(right, wide, g.double())
    pairs = (found.detach(), right.detach()), (dx, right_dx)
    return max(float((one.double() - other).abs().max() / other.abs().max()) / SIXTEEN[x.dtype] for one, other in pairs)


@pytest.mark.parametrize("kind", SIXTEEN)
def test_cpus_round_what_they_compute_in_fp32_once(kind: torch.dtype) -> None:
    assert compared(attended, CausalAttention().forward, torch.randn(2, 130, 3 * 128).to(kind)) < 1.1


@pytest.mark.parametrize("kind", SIXTEEN)
def test_gpus_compute_in_16_bits(kind: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    with on_host(monkeypatch) as ran:
        worst = compared(attended, CausalAttention().forward, torch.randn(2, SIDE + 5, 3 * 128).to(kind))
    assert worst < 8
    assert [each.program.name for each in ran] == ["rotate", "forward", "means", "of_keys", "of_queries", "rotate"]
    (type_of,) = {dict(each.program.definitions)["USE_TYPE"] for each in ran}
    assert type_of == {torch.bfloat16: "Bf16", torch.float16: "Fp16"}[kind]


@pytest.mark.parametrize("kind", SIXTEEN)
def test_norms_of_rows_in_16_bits_compute_in_the_type_of_their_weights(kind: torch.dtype) -> None:
    weight = torch.rand(128) + 0.5
    x = torch.randn(2, 9, 128).to(kind)
    assert sequences.normalises(x, weight) and not sequences.normalises(x, weight.to(kind))
    norm = nn.RMSNorm(128, EPSILON, dtype=torch.float64)
    norm.weight.data = weight.double()
    assert compared(lambda x: sequences.rms_norm(x, weight, EPSILON), norm, x) < 1.1


def test_autocast_gets_no_attention_in_fp32() -> None:
    x = torch.randn(1, 4, 3 * HEAD)
    with torch.autocast("cpu", torch.bfloat16):
        assert not sequences.attends(x) and sequences.attends(x.bfloat16())
    assert sequences.attends(x) and not sequences.attends(x.double())


@pytest.mark.parametrize("name", ["bf16", "fp16", "pure16"])
def test_a_decoder_in_16_bits_trains_by_custom_kernels(name: str) -> None:
    graph = networks.build("decoder2x64", (1, PLACES), 1, SYMBOLS)
    samples = torch.randint(SYMBOLS, (3, 1, 1, PLACES), generator=torch.Generator().manual_seed(1)).float()

    def step(kind: str, custom: bool) -> tuple[dict[str, int], list[Tensor]]:
        network = build(graph, 3)
        precision.apply(kind, network, CPU)
        if custom:
            use_custom(network)
        with profile() as recorded:
            loss = cross_entropy(network(samples).flatten(0, 1), samples.roll(-1).long().flatten())
            gradients = torch.autograd.grad(loss, [*network.parameters()])
        return {event.key: event.count for event in recorded.key_averages()}, [each.float() for each in gradients]

    (calls, own), (_, vendor), (_, right) = step(name, True), step(name, False), step("fp32", False)
    assert calls["CausalAttention"] == 2 and calls["RmsNorm"] == 5
    assert "aten::scaled_dot_product_attention" not in calls
    for one, other, exact in zip(own, vendor, right, strict=True):
        assert (one - exact).norm() < 1.5 * (other - exact).norm() + 1e-3 * exact.norm()

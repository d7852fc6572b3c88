"""Packing of gradients for the wire: every backend against the reference, also where numbers are tiny or not finite."""

from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from hpcai.kernels.wire import LEAST, SCALE_BYTES, reference, vendor

VECTORS = {
    "normal": torch.randn(5001, generator=torch.Generator().manual_seed(1)),
    "exact": torch.tensor([1.0, 2.0, 127.0, 0.5, -126.0]),
    "just above a power of two": torch.tensor([127 * 2.0**-3 * (1 + 2.0**-20), 0.1]),
    "zeros": torch.zeros(7),
    "below LEAST": torch.full((9,), LEAST / 3),
    "NaN": torch.tensor([1.0, float("nan"), 2.0]),
    "infinite": torch.tensor([1.0, -float("inf")]),
    "one": torch.tensor([-3.0]),
}


def backends() -> list[ModuleType]:
    from hpcai.kernels.wire import numba_cpu

    return [vendor, numba_cpu]


def devices(backend: ModuleType) -> list[str]:
    return ["cpu", "cuda"] if backend is vendor and torch.cuda.is_available() else ["cpu"]


@pytest.mark.parametrize("name", VECTORS)
def test_bytes_scale_and_what_is_left_are_those_of_the_reference(name: str) -> None:
    for backend in backends():
        for device in devices(backend):
            values = VECTORS[name].to(device)
            scale, expected = backend.scale_of(backend.largest(values)), reference.scale_of(VECTORS[name].numpy())
            assert scale.item() == expected, backend.__name__
            q = torch.full((len(values) + 3,), 9, dtype=torch.int8, device=device)
            left, more = torch.full_like(values, 7.0), torch.full_like(values, 7.0)
            backend.quantise(values, scale, q, left)
            backend.quantise(values, scale, q, more, add=True)
            bytes_, rest = reference.quantised(VECTORS[name].numpy(), expected)
            kept = np.isfinite(expected)
            assert np.array_equal(q.cpu().numpy(), np.r_[bytes_, np.zeros(3, np.int8)])
            assert np.array_equal(left.cpu().numpy(), rest if kept else np.full(len(values), 7.0))
            assert np.array_equal(more.cpu().numpy(), (7 + rest).astype(np.float32) if kept else left.cpu().numpy())


@pytest.mark.parametrize("count", [1, 4097])
def test_sums_of_bytes_and_of_16_bits(count: int) -> None:
    random = np.random.default_rng(count)
    rows = random.integers(-127, 128, (200, count)).astype(np.int8)  # of which int8 sums would wrap around
    halves = random.standard_normal((3, count)).astype(np.float16)
    for backend in backends():
        out: Any = torch.empty(count)
        backend.sum_bytes(torch.from_numpy(rows), torch.tensor([0.25]), out)
        assert np.array_equal(out.numpy(), reference.summed(rows, 0.25))
        backend.sum_rows(torch.from_numpy(halves), out)
        assert np.allclose(out.numpy(), halves.astype(np.float64).sum(0), rtol=0, atol=1e-6)


def test_packets_are_unpacked_in_order_and_the_last_may_be_longer_than_needed() -> None:
    numbers = torch.arange(-6, 6, dtype=torch.int8).view(3, 4)
    scales = torch.tensor([0.5, 2.0, 4.0])
    packets = torch.cat([scales.view(torch.int8).view(3, SCALE_BYTES), numbers], 1).contiguous()
    expected = (numbers.float() * scales[:, None]).flatten()
    for backend in backends():
        for count in (12, 10, 7):
            out = torch.empty(count)
            backend.dequantise(packets, out)
            assert torch.equal(out, expected[:count])


def test_adding_what_was_left_returns_the_largest_magnitude() -> None:
    for backend in backends():
        values, carried = torch.tensor([1.0, -4.0, 2.0]), torch.tensor([0.5, -1.0, 0.0])
        assert backend.add(values, carried).item() == 5.0
        assert torch.equal(values, torch.tensor([1.5, -5.0, 2.0])) and carried[1] == -1.0
        assert backend.add(values, torch.tensor([0.0, 0.0, float("nan")])).item() == float("inf")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="NO GPU: PACKING NOT RUN ON IT")
def test_packing_on_a_gpu_does_not_wait_for_it() -> None:
    values, left = torch.randn(1000, device="cuda"), torch.zeros(1000, device="cuda")
    q = torch.empty(1000, dtype=torch.int8, device="cuda")
    vendor.quantise(values, vendor.scale_of(vendor.add(values, left)), q, left)
    torch.cuda.set_sync_debug_mode("error")
    try:
        vendor.quantise(values, vendor.scale_of(vendor.add(values, left)), q, left)
    finally:
        torch.cuda.set_sync_debug_mode("default")

"""The custom GEMM on a GPU: every type and layout, bitwise repeatable, on the caller's stream without waiting."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from test_cuda_gemm_tensors import WAYS
from torch import Tensor

from hpcai.kernels import gemm, verify
from hpcai.kernels.cuda import tuning
from hpcai.kernels.cuda.compiler import PLACE
from hpcai.kernels.cuda.tiling import KINDS
from hpcai.kernels.gemm import cupy_gpu
from hpcai.kernels.gemm.cuda import autotune as choice
from hpcai.kernels.providers import CUSTOM, VENDOR, Prepared, Unavailable, backend
from hpcai.kernels.spec import DIRECTIONS, DTYPES

NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="NO GPU: gemm.cu NOT RUN ON A DEVICE")


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """The tile is chosen by the rule: measuring tiles is slow, and has a test of its own."""
    monkeypatch.setenv(tuning.SWITCH, tuning.OFF)
    monkeypatch.setattr(choice, "_chosen", {})
    cupy_gpu.plan.cache_clear()
    return torch.device("cuda", 0)


SHAPES = [(130, 72, 264), (1, 1, 1), (333, 127, 65), (64, 3000, 64), (1024, 1024, 1024), (256, 2048, 1000)]


def prepared(dtype: str, shape: Any, direction: str, provider: str = CUSTOM) -> tuple[Any, Prepared]:
    data = verify.drawn(shape, dtype, 5)
    try:
        (way, *_) = backend(gemm.SPEC, provider, "cuda").prepare(shape, direction, data, "cuda:0", 1)
    except Unavailable as reason:
        pytest.skip(f"THE GPU DOES NOT COMPUTE {dtype}: {reason}")
    return data, way


@NEEDS_GPU
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("size", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_is_right_and_the_same_in_every_run(
    dtype: str, size: tuple[int, int, int], direction: str, device: torch.device
) -> None:
    shape = gemm.Shape(*size)
    data, way = prepared(dtype, shape, direction)
    way.call()
    assert verify.residual(gemm.SPEC, shape, direction, dtype, data, way) <= (0 if dtype == "int8" else 1)
    before = way.result().tobytes()
    for _ in range(3):
        way.poison_result()
        way.call()
        assert way.result().tobytes() == before


@NEEDS_GPU
@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype != "int8"])
def test_the_vendors_products_are_within_the_same_limits(dtype: str, device: torch.device) -> None:
    allowed, shape = torch.backends.cuda.matmul.allow_tf32, gemm.Shape(256, 4096, 512)
    for direction in DIRECTIONS:
        data, way = prepared(dtype, shape, direction, VENDOR)
        way.call()
        assert verify.residual(gemm.SPEC, shape, direction, dtype, data, way) <= 1
    assert torch.backends.cuda.matmul.allow_tf32 == allowed


def random(rows: int, columns: int, type: str, device: torch.device) -> Tensor:
    kind = getattr(torch, KINDS[type].operand)
    if type == "int8":
        return torch.randint(-128, 128, (rows, columns), device=device, dtype=kind)
    return torch.randn(rows, columns, device=device).to(kind)


def product(type: str, *given: Tensor, **more: Any) -> Tensor:
    a, b = given
    c = torch.full((a.shape[0], b.shape[1]), 77, dtype=getattr(torch, KINDS[type].result), device=a.device)
    try:
        cupy_gpu.gemm(a, b, c, type, **more)
    except Unavailable as reason:
        pytest.skip(f"THE GPU DOES NOT COMPUTE {type}: {reason}")
    return c


@NEEDS_GPU
@pytest.mark.parametrize("type", KINDS)
def test_matrices_may_have_any_layout(type: str, device: torch.device) -> None:
    a, b = random(133, 96, type, device), random(96, 77, type, device)
    wanted = product(type, a, b)
    exact = a.double() @ b.double()
    assert torch.allclose(wanted.double(), exact, rtol=2e-2, atol=1e-2)
    for first in WAYS.values():
        for second in WAYS.values():
            found = product(type, first(a), second(b))
            assert torch.allclose(found.double(), wanted.double(), rtol=1e-2, atol=1e-3)


@NEEDS_GPU
@pytest.mark.parametrize("type", KINDS)
def test_results_may_have_any_layout_and_nothing_else_is_written(type: str, device: torch.device) -> None:
    a, b = random(133, 96, type, device), random(96, 77, type, device)
    wanted = product(type, a, b)
    places = {"rows": (slice(3, 136), slice(5, 82)), "gaps": (slice(3, 136), slice(5, 159, 2))}
    for place_of_it in places.values():
        for transposed in (False, True):
            whole = torch.full((200, 200), 99, dtype=wanted.dtype, device=device)
            c = (whole.t() if transposed else whole)[place_of_it]
            cupy_gpu.gemm(a, b, c, type)
            assert torch.allclose(c.double(), wanted.double(), rtol=1e-2, atol=1e-3)
            c.fill_(99)
            assert (whole == 99).all()


@NEEDS_GPU
@pytest.mark.parametrize("type", [type for type in KINDS if type != "int8"])
@pytest.mark.parametrize("size", [(133, 77, 96), (64, 48, 20000)], ids=str)
def test_every_epilogue_is_right(type: str, size: tuple[int, int, int], device: torch.device) -> None:
    m, n, k = size
    a, b = random(m, k, type, device), random(k, n, type, device)
    bias, scale = torch.randn(n, device=device), torch.randn(n, device=device)
    added = product(type, a, b).mul_(0.5)
    exact = torch.relu(0.25 * scale * (a.double() @ b.double()) + bias + added)
    more = {"bias": bias, "scale": scale, "added": added, "relu": True, "factor": 0.25}
    unit = {"bf16": 2.0**-7, "fp16": 2.0**-10, "tf32": 1e-4}.get(type, 1e-5)
    for way in ("as they are", "by columns", "in other types"):
        if way == "by columns":
            more["added"] = added.t().clone().t()
        if way == "in other types":
            more["bias"] = bias.double()
        found = product(type, a, b, **more).double()
        assert ((found - exact).abs() <= unit * (exact.abs() + 0.02 * k**0.5)).all(), way
    c = added.clone()
    cupy_gpu.gemm(a, b, c, type, added=c)
    assert torch.equal(c, product(type, a, b, added=added))


@NEEDS_GPU
@pytest.mark.parametrize("type", KINDS)
def test_empty_matrices(type: str, device: torch.device) -> None:
    assert (product(type, random(5, 0, type, device), random(0, 7, type, device)) == 0).all()
    assert product(type, random(0, 9, type, device), random(9, 7, type, device)).shape == (0, 7)
    assert product(type, random(5, 9, type, device), random(9, 0, type, device)).shape == (5, 0)


@NEEDS_GPU
def test_gemm_is_queued_on_the_current_stream_without_waiting(device: torch.device) -> None:
    a, b, c = (torch.randn(512, 512, device=device) for _ in range(3))
    cupy_gpu.gemm(a, b, c, "fp32")
    wanted, stream = c.clone(), torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        torch.cuda._sleep(10**8)
        c.zero_()
        cupy_gpu.gemm(a, b, c, "fp32")
        assert not stream.query()
    stream.synchronize()
    assert torch.equal(c, wanted)


@NEEDS_GPU
def test_gemm_is_captured_in_graphs_with_its_workspace(device: torch.device) -> None:
    a, b = torch.randn(64, 30000, device=device), torch.randn(30000, 64, device=device)
    wanted = product("fp32", a, b)
    graph, c = torch.cuda.CUDAGraph(), torch.empty_like(wanted)
    with torch.cuda.graph(graph):
        cupy_gpu.gemm(a, b, c, "fp32")
    c.zero_()
    graph.replay()
    assert torch.equal(c, wanted)


@NEEDS_GPU
def test_the_fastest_tile_is_measured_once(
    device: torch.device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(tuning.SWITCH, tuning.ON)
    monkeypatch.setenv(PLACE, str(tmp_path))
    seed = torch.cuda.get_rng_state(device)
    a, b = torch.randn(300, 500, device=device), torch.randn(500, 200, device=device)
    state = torch.cuda.get_rng_state(device)
    first = product("fp32", a, b)
    assert torch.equal(torch.cuda.get_rng_state(device), state) and not torch.equal(seed, state)
    (file,) = tmp_path.glob("cuda/tiles-*.json")
    ((key, entry),) = json.loads(file.read_text()).items()
    assert key.startswith("fp32 300 x 200 x 500: by rows") and entry["seconds"] > 0 and entry["tried"] > 1
    monkeypatch.setattr(choice, "_chosen", {})
    monkeypatch.setattr(choice, "_measured", lambda *given: pytest.fail("measured again"))
    cupy_gpu.plan.cache_clear()
    assert torch.equal(product("fp32", a, b), first)

"""Products of torch's tensors: their layouts, copies and transposed operands; the host replaces the GPU."""

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace

import cuda_on_host
import pytest
import torch
from torch import Tensor

from hpcai.kernels.cuda import launch_plan as planned
from hpcai.kernels.cuda.architecture import CUBIN, Target
from hpcai.kernels.cuda.gpu import Gpu
from hpcai.kernels.cuda.launch import Launch
from hpcai.kernels.cuda.tiling import BY_COLUMNS, BY_ROWS, SIMT, Tile
from hpcai.kernels.gemm import cupy_gpu
from hpcai.kernels.gemm.cuda.tensors import ProductTensors, TensorLayout, check, layout_of, operand, row_pitch

WHOLE = torch.arange(40 * 50.0).reshape(40, 50)
LAYOUTS_OF = {
    "by rows": (WHOLE, BY_ROWS, 50),
    "by columns": (WHOLE.t(), BY_COLUMNS, 50),
    "a part by rows": (WHOLE[3:20, 5:21], BY_ROWS, 50),
    "a part by columns": (WHOLE[3:20, 5:21].t(), BY_COLUMNS, 50),
    "every second row": (WHOLE[::2], BY_ROWS, 100),
    "a column": (WHOLE[:, 7:8], BY_ROWS, 50),
    "a column in one piece": (WHOLE[:, 7:8].contiguous(), BY_COLUMNS, 40),
    "a row": (WHOLE[4:5], BY_ROWS, 52),
    "a row of every second": (WHOLE[4:5, ::2], BY_COLUMNS, 2),
    "one row for all": (WHOLE[:1].expand(40, 50), BY_ROWS, 0),
    "nothing": (WHOLE[:, :0], BY_ROWS, 50),
}


@pytest.mark.parametrize("name", LAYOUTS_OF)
def test_the_layout_of_a_matrix_is_recognised(name: str) -> None:
    tensor, layout, pitch = LAYOUTS_OF[name]
    found = operand(layout_of(tensor), 4)
    assert found is not None and (found.layout, found.pitch) == (layout, pitch)
    lines = tensor.as_strided((found.lines, found.columns), (found.pitch, 1))
    assert torch.equal(lines if layout == BY_ROWS else lines.t(), tensor) and found.address == tensor.data_ptr()
    assert (found.rows, found.steps) == tensor.shape


def test_matrices_with_gaps_in_both_directions_have_to_be_copied() -> None:
    assert operand(layout_of(WHOLE[:, ::2]), 4) is None and operand(layout_of(WHOLE[:, ::2].t()), 4) is None
    assert row_pitch(layout_of(WHOLE[::3, 2:]), 4) == 150 and row_pitch(layout_of(WHOLE[1:2]), 4) == 52
    for other in (WHOLE.t(), WHOLE[:, ::2], WHOLE[:1].expand(40, 50)):
        assert row_pitch(layout_of(other), 4) is None


A, B, C = (TensorLayout(64, "bfloat16", size, (size[1], 1)) for size in ((5, 7), (7, 3), (5, 3)))
BIAS = TensorLayout(64, "float32", (3,), (1,))
BYTES = ProductTensors(A._replace(dtype="int8"), B._replace(dtype="int8"), C._replace(dtype="int32"))
UNFIT = [
    ("bf8", ProductTensors(A, B, C), "gemm in bf8; allowed: fp64, fp32, tf32, bf16, fp16, int8"),
    ("fp16", ProductTensors(A, B, C), "in fp16 of bfloat16, bfloat16, bfloat16; allowed: float16, float16, float16$"),
    ("bf16", ProductTensors(A, B, C, added=C._replace(dtype="float32")), "bfloat16, float32; allowed: bfloat16"),
    (
        "bf16",
        ProductTensors(A, C, B),
        r"gemm of \(5, 7\) and \(5, 3\) to \(7, 3\) with .*allowed: \(m, k\) and \(k, n\)",
    ),
    ("bf16", ProductTensors(A, B, C, BIAS._replace(size=(5,))), r"bias, scale and added of \[\(5,\), None, None\]"),
    ("bf16", ProductTensors(A._replace(size=(5, 7, 1)), B, C), r"gemm of \(5, 7, 1\)"),
    ("bf16", ProductTensors(A._replace(size=(5,)), B, C), r"gemm of \(5,\)"),
    ("bf16", ProductTensors(A._replace(size=(2**31, 7)), B, C._replace(size=(2**31, 3))), "at most 2147482624 rows"),
    ("bf16", ProductTensors(A, B, C, BIAS._replace(device=1)), "not all of the same GPU"),
    ("bf16", ProductTensors(*(each._replace(device=-1) for each in (A, B, C))), "not all of the same GPU"),
    ("int8", BYTES._replace(scale=BIAS), "int8 with bias, scale, factor, ReLU or .*; allowed: the bare sums"),
]


@pytest.mark.parametrize(("type", "given", "message"), UNFIT)
def test_unsuitable_tensors_are_refused_with_the_reason(type: str, given: ProductTensors, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check(type, given)


def test_suitable_tensors_are_accepted() -> None:
    check("bf16", ProductTensors(A, B, C, BIAS, BIAS, C), changed=True)
    check("int8", BYTES)
    with pytest.raises(ValueError, match="the bare sums"):
        check("int8", BYTES, changed=True)
    with pytest.raises(ValueError, match="not all of the same GPU"):
        cupy_gpu.gemm(torch.ones(2, 3), torch.ones(3, 2), torch.ones(2, 2), "fp32")


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[Launch]:
    """The host replaces the GPU: all kernels of this file run on it, and are recorded."""
    ran: list[Launch] = []

    def ready(launch: Launch, device: torch.device) -> Callable[[], None]:
        return lambda: (ran.append(launch), cuda_on_host.run(launch, "round robin"))[1]

    stand_ins = {
        "layout_of": lambda tensor: layout_of(tensor)._replace(device=0),
        "gpu": lambda device: Gpu("the host", Target("sm_80", CUBIN, (8, 0)), 4, 0),
        "tile_of": lambda type, a, b, device: Tile(SIMT, 64, 64, 2, parts=3 if a.steps > 100 else 1),
        "encoded": cuda_on_host.encoded,
    }
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(cupy_gpu, name, stand_in)
    monkeypatch.setattr(planned, "ready", ready)
    monkeypatch.setattr(planned.LaunchPlan, "workspace", lambda self: torch.empty(self._nbytes, dtype=torch.uint8))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=1))
    monkeypatch.setattr(torch.cuda, "device", nullcontext)
    cupy_gpu.plan.cache_clear()
    return ran


def random(rows: int, columns: int) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(rows))


WAYS: dict[str, Callable[[Tensor], Tensor]] = {
    "by rows": lambda x: x.clone(),
    "by columns": lambda x: x.t().clone().t(),
    "between others": lambda x: torch.cat([x, x], 1)[:, x.shape[1] :],
    "one element on": lambda x: torch.cat([x.flatten()[:1], x.flatten()])[1:].view(x.shape),
    "with gaps": lambda x: torch.stack([x, x], 2)[:, :, 0],
}


@pytest.mark.parametrize("way", WAYS)
def test_operands_may_have_any_layout(way: str, launched: list[Launch]) -> None:
    a, b, c = random(68, 36), random(36, 72), torch.full((68, 72), torch.nan)
    cupy_gpu.gemm(WAYS[way](a), WAYS[way](b), c, "fp32")
    assert torch.allclose(c, a @ b, atol=1e-4) and len(launched) == 1


@pytest.mark.parametrize("gaps", [1, 2])
@pytest.mark.parametrize("transposed", [False, True])
def test_results_may_have_any_layout(transposed: bool, gaps: int, launched: list[Launch]) -> None:
    a, b, whole = random(68, 36), random(36, 72), torch.full((200, 200), 99.0)
    c = (whole.t() if transposed else whole)[3:71, 5 : 5 + 72 * gaps : gaps]
    cupy_gpu.gemm(a, b, c, "fp32", added=c, relu=True)
    assert torch.allclose(c, torch.relu(a @ b + 99), atol=1e-4)
    c.fill_(99)
    assert (whole == 99).all()


def test_epilogue_operands_are_copied_to_the_layout_of_the_result(launched: list[Launch]) -> None:
    a, b = random(68, 36), random(36, 72)
    bias, scale, added = torch.randn(72).double(), torch.randn(144)[::2], torch.randn(72, 68).t()
    for place_of_it in (torch.empty(68, 72), torch.empty(72, 68).t()):
        cupy_gpu.gemm(a, b, place_of_it, "fp32", bias=bias, scale=scale, added=added, factor=0.5)
        assert torch.allclose(place_of_it, 0.5 * scale * (a @ b) + bias.float() + added, atol=1e-4)


def test_a_product_is_planned_once(launched: list[Launch]) -> None:
    a, b, c = random(68, 200), random(200, 72), torch.empty(68, 72)
    for _ in range(3):
        cupy_gpu.gemm(a, b, c, "fp32")
        assert torch.allclose(c, a @ b, atol=1e-4)
    assert [launch.program.name for launch in launched] == ["gemm", "reduce_split_k"] * 3
    assert cupy_gpu.plan.cache_info().misses == 1
    cupy_gpu.gemm(a, b, torch.empty(68, 72), "fp32")
    assert cupy_gpu.plan.cache_info().misses == 2


def test_empty_matrices(launched: list[Launch]) -> None:
    c = torch.full((5, 7), 3.0)
    cupy_gpu.gemm(torch.empty(5, 0), torch.empty(0, 7), c, "fp32", bias=torch.ones(7))
    assert (c == 1).all() and len(launched) == 1
    cupy_gpu.gemm(torch.empty(0, 9), torch.empty(9, 7), torch.empty(0, 7), "fp32")
    cupy_gpu.gemm(torch.empty(5, 9), torch.empty(9, 0), torch.empty(5, 0), "fp32")
    assert len(launched) == 1

"""The multiply-adds of a GPU without one: run on the host, in every type and schedule; compiled without omissions."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cuda_on_host import SCHEDULES, planted, run
from cuda_sources import ARCHITECTURES, device_target, faults
from sampled_parameters import fast, one_in

from hpcai.kernels import fma_peak, verify
from hpcai.kernels.arrays import poison
from hpcai.kernels.cuda.architecture import CUBIN, Target
from hpcai.kernels.cuda.compiler import compiled
from hpcai.kernels.cuda.launch import Launch
from hpcai.kernels.cuda.tiling import KINDS, MMA, SIMT, WGMMA
from hpcai.kernels.fma_peak import cupy_gpu
from hpcai.kernels.fma_peak.cupy_gpu import engines
from hpcai.kernels.fma_peak.reference import compared
from hpcai.kernels.providers import Unavailable

AMPERE, HOPPER = Target("sm_80", CUBIN, (8, 0)), Target("sm_90a", CUBIN, (9, 0))
WAYS = [(dtype, engine) for dtype in KINDS for engine in sorted({*engines(dtype, AMPERE), *engines(dtype, HOPPER)})]
TENSOR_CORES = [dtype for dtype in KINDS if dtype != "fp32"]
PARTS_OF = {**dict.fromkeys(TENSOR_CORES, 4), "fp64": 2}  # products of tensor cores in an iteration


def made(dtype: str, engine: str, iterations: int, blocks: int = 2) -> tuple[Launch, fma_peak.Shape, Any]:
    """A launch of a few iterations, and the array of its sums."""
    shape = fma_peak.Shape(
        cupy_gpu.filling(dtype, 0, blocks).sums, iterations * cupy_gpu.iteration_steps(dtype, engine)
    )
    kind = cupy_gpu.SUMS[KINDS[dtype].sums]
    sums = np.full(shape.sums, poison(kind), kind)
    return cupy_gpu.launch(dtype, engine, shape, sums.ctypes.data), shape, sums


def residual(dtype: str, shape: fma_peak.Shape, sums: Any) -> float:
    parts = compared(sums, shape, fma_peak.SPEC.tolerance(shape.steps))
    return verify.wrong(parts) if dtype == "int8" else verify.worst(parts)


@pytest.mark.parametrize("schedule", one_in(3, SCHEDULES))
@pytest.mark.parametrize(("dtype", "engine"), one_in(5, WAYS))
def test_every_sum_has_every_step(dtype: str, engine: str, schedule: str) -> None:
    launch, shape, sums = made(dtype, engine, iterations=2)
    assert residual(dtype, shape, sums) > 1
    run(launch, schedule)
    assert (sums == shape.steps).all() and residual(dtype, shape, sums) == 0


LOOP = "; iteration < p.iterations; ++iteration)\n        UNROLL\n        for (int step"
FAULTS = [
    ("a barrier", "tf32", WGMMA, "    sync_block();\n", ""),
    ("the last products", "bf16", WGMMA, "    wgmma_wait<0>();\n", ""),
    ("a part of a tile", "bf16", WGMMA, "rows * VECTORS", "rows * (VECTORS - 1)"),
    ("the other row", "int8", WGMMA, "? odd : even", "? even : even + 1"),
    ("a part twice", "fp16", MMA, "(tile + part) % PARTS", "tile % PARTS"),
    ("half of the steps", "fp64", MMA, "4 * four + lane % 4", "4 * four + lane % 2"),
    ("an iteration", "fp32", SIMT, f"iteration = 0{LOOP}", f"iteration = 1{LOOP}"),
    ("a step", "fp64", SIMT, "step = 0", "step = 1"),
    ("a thread's place", "int8", MMA, "blockIdx.x * THREADS + threadIdx.x", "threadIdx.x"),
    ("a sum", "fp32", SIMT, "i < COUNT; ++i) own", "i < COUNT - 1; ++i) own"),
]


@pytest.mark.parametrize(("what", "dtype", "engine", "right", "wrong"), one_in(8, FAULTS))
def test_a_fault_is_detected(what: str, dtype: str, engine: str, right: str, wrong: str, tmp_path: Path) -> None:
    library, seen = planted(made(dtype, engine, iterations=3)[0].program, tmp_path, right, wrong), []
    for schedule in SCHEDULES:
        launch, shape, sums = made(dtype, engine, iterations=3)
        run(launch, schedule, library)
        seen.append(residual(dtype, shape, sums) > (0 if dtype == "int8" else 1))
    assert any(seen), what


@pytest.mark.parametrize("dtype", TENSOR_CORES)
def test_operands_look_random_and_have_known_sums(dtype: str) -> None:
    rows, column = cupy_gpu.operands(dtype)
    steps = cupy_gpu.iteration_steps(dtype, MMA)
    assert rows.shape == (2, steps) and ((rows * column).sum(1) == steps * fma_peak.TERM).all()
    of_parts = (rows * column).reshape(2, PARTS_OF[dtype], -1).sum(2)
    assert (of_parts != steps // PARTS_OF[dtype]).all()
    assert all(abs(numbers).max() <= 64 and len({*numbers}) > 6 for numbers in (*rows, column))
    stored = cupy_gpu.stored(column, dtype)
    kind = torch.bfloat16 if dtype == "bf16" else getattr(torch, KINDS[dtype].operand)
    assert torch.from_numpy(stored.view(np.uint8).copy()).view(kind).to(torch.int64).tolist() == column.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("architecture", fast(["sm_90a"], ARCHITECTURES))
def test_no_kernel_spills_registers(architecture: str) -> None:
    target = device_target(architecture)
    for program in cupy_gpu.programs(target):
        made = compiled(program, target)
        assert not faults(made) and all(usage.stack == 0 for usage in made.usage.values()), f"{program}"


def test_a_gpu_is_filled_and_sums_stay_exact() -> None:
    for dtype in KINDS:
        shape = cupy_gpu.filling(dtype, 2**20, 132)
        assert shape.sums * KINDS[dtype].sum_bytes == 132 * 65536 * 2 and shape.steps <= 2**24
        for engine in engines(dtype, HOPPER):
            assert shape.steps % cupy_gpu.iteration_steps(dtype, engine) == 0
            assert cupy_gpu.launch(dtype, engine, shape, 0).grid == (132, 1, 1)


def test_a_type_that_a_gpu_lacks_is_unavailable_with_the_reason() -> None:
    turing = Target("sm_75", CUBIN, (7, 5))
    assert engines("fp32", turing) == engines("fp64", turing) == (SIMT,)
    for dtype in ("bf16", "fp16", "tf32", "int8"):
        with pytest.raises(Unavailable, match=f"^{dtype} is multiplied by tensor cores .* 8.0 and newer; this is 7.5$"):
            engines(dtype, turing)
    assert engines("fp64", HOPPER) == (SIMT, MMA) and engines("bf16", HOPPER) == (WGMMA,)
    assert engines("bf16", Target("sm_100", CUBIN, (10, 0))) == (MMA,)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="NO GPU: ITS CEILINGS ARE NOT MEASURED")
@pytest.mark.parametrize("dtype", KINDS)
def test_every_engine_is_exact_on_a_gpu(dtype: str) -> None:
    shape = cupy_gpu.shape(dtype, 2**14, "cuda:0", 1)
    for way in cupy_gpu.prepare(shape, "ceiling", fma_peak.Numbers(dtype), "cuda:0", 1):
        way.poison_result()
        way.call()
        assert (way.result() == shape.steps).all(), way.variant

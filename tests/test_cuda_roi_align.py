"""RoIAlign of a GPU without one: its kernels run on the host under every schedule, and their faults are detected."""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_on_host import SCHEDULES, planted, run
from roi_align_cases import CASES, OWN, Case, check_backward, check_forward
from sampled_parameters import one_in

from hpcai.kernels.cuda.launch import Launch
from hpcai.kernels.roi_align import cupy_gpu

THREADS = 2 * cupy_gpu.GROUP  # fewer than on a GPU, so that channels and regions take several iterations


def by_cuda(made: Callable[..., Launch], case: Case, schedule: str, library: ctypes.CDLL | None = None) -> Any:
    """The result of a kernel, run on the host."""
    into = np.zeros_like(case.features) if made == cupy_gpu.spreading else np.full_like(case.gradient, np.nan)
    given = case.gradient if made == cupy_gpu.spreading else case.features
    memory = (given, case.regions, case.level, into)
    assert all(array.flags.c_contiguous for array in memory)
    sizes = (OWN, case.scale, *case.level.shape, *case.features.shape[1:], case.side, case.samples)
    run(made(tuple(np.uint64(array.ctypes.data) for array in memory), *sizes, threads=THREADS), schedule, library)
    return into


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("no ")])
def test_the_cuda_kernels_on_the_host_agree_with_the_reference(name: str, schedule: str) -> None:
    check_forward(by_cuda(cupy_gpu.pooling, CASES[name], schedule), CASES[name])
    check_backward(by_cuda(cupy_gpu.spreading, CASES[name], schedule), CASES[name])


POOLED = (cupy_gpu.POOL, cupy_gpu.pooling, check_forward)
SPREAD = (cupy_gpu.SPREAD, cupy_gpu.spreading, check_backward)
BARRIER = "sync_block();"
FAULTS = [(POOLED, BARRIER, "", 0), *((SPREAD, BARRIER, "", place) for place in range(1, 5))]
FAULTS += [
    (POOLED, "bin % side * samples", "bin / side * samples", 0),
    (SPREAD, "k - side, samples, x", "k - side, samples, y", 0),
    (SPREAD, "first + group * GROUP", "group * GROUP", 0),
]


@pytest.mark.parametrize(("kernel", "right", "wrong", "place"), one_in(4, FAULTS))
def test_a_fault_of_the_cuda_kernels_is_detected(
    kernel: tuple[Any, ...], right: str, wrong: str, place: int, tmp_path: Path
) -> None:
    program, made, check = kernel
    library, case = planted(program, tmp_path, right, wrong, place), CASES["many"]

    def wrongly(schedule: str) -> bool:
        try:
            check(by_cuda(made, case, schedule, library), case)
        except AssertionError:
            return True
        return False

    assert any(map(wrongly, SCHEDULES))

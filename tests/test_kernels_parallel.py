"""Parallel loops: each iteration once, on torch's OpenMP threads, or on one thread without OpenMP."""

import sys

import numpy as np
import pytest
from launch import run_job

from hpcai.kernels.cpu import parallel
from hpcai.kernels.cpu.compiled import compiled
from hpcai.kernels.cpu.parallel import LIBRARIES, SERIAL, openmp_functions, parallel_for

IN_A_PROCESS = """
import os, re, sys
import numpy as np
import torch
{before}
from hpcai.kernels.cpu import parallel
from hpcai.kernels.gemm.numba_cpu import gemm
{after}
a = np.random.default_rng(1).normal(size=(64, 64)).astype("float32")
c = np.zeros_like(a)
gemm(a, a, c, threads=3)
assert np.allclose(c, a @ a, atol=1e-4)
torch.set_num_threads(3)
torch.ones(512, 512) @ torch.ones(512, 512)
gemm(a, a, c, threads=3)
maps = open("/proc/self/maps").read()
print(len(os.listdir("/proc/self/task")), len(set(re.findall(r"\\S*lib[ig]?omp\\S*", maps))), "omppool" in maps)
"""
NO_OPENMP = """
import ctypes
from llvmlite import binding
for name, function in zip(parallel.NAMES, parallel.SERIAL):
    binding.add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)
"""


@compiled
def _add(iteration: int, sums: np.ndarray, more: tuple[float, int], fails: int) -> None:
    if iteration == fails:
        raise ValueError("planted")
    sums[iteration] += more[0] * iteration + more[1]


@compiled
def _add_all(iterations: int, sums: np.ndarray, more: tuple[float, int], fails: int) -> None:
    parallel_for(_add, iterations, (sums, more, fails))


@pytest.mark.parametrize("iterations", [0, 1, 2, 5])
def test_each_iteration_runs_once(iterations: int) -> None:
    sums = np.zeros(6)
    _add_all(iterations, sums, (2.0, 3), -1)
    assert sums.tolist() == [3.0 + 2 * iteration if iteration < iterations else 0 for iteration in range(6)]


@pytest.mark.parametrize(("iterations", "fails"), [(1, 0), (3, 0), (3, 2)])
def test_a_failed_iteration_is_reported(iterations: int, fails: int) -> None:
    with pytest.raises(RuntimeError, match="_add.* failed in a thread"):
        _add_all(iterations, np.zeros(6), (2.0, 3), fails)


def threads(before: str = "", after: str = "") -> list[str]:
    """Numbers of threads and OpenMP libraries of a process that runs torch and gemm; whether Numba's pool runs."""
    finished = run_job(["-c", IN_A_PROCESS.format(before=before, after=after)], None)
    assert not finished.stderr and finished.returncode == 0, finished.stderr
    return finished.stdout.split()


@pytest.mark.exhaustive
@pytest.mark.skipif(openmp_functions(LIBRARIES) is SERIAL, reason="TORCH HAS NO OpenMP HERE: ITS POOL IS NOT SHARED")
@pytest.mark.skipif(sys.platform != "linux", reason="PROCESSES' THREADS ARE COUNTED ON LINUX ONLY")
def test_threads_are_those_of_torch() -> None:
    alone = threads("", NO_OPENMP)
    assert threads() == alone == [str(int(alone[0])), "1", "False"]


@pytest.mark.exhaustive
def test_without_openmp_one_thread_runs_all_iterations() -> None:
    assert openmp_functions(["/nowhere/libgomp.so", "libm.so.6"]) is SERIAL
    assert len(parallel.NAMES) == len(SERIAL)
    without = threads("torch.set_num_threads = lambda number: None; torch.ones(9) @ torch.ones(9)", NO_OPENMP)
    assert int(without[0]) < int(threads()[0])

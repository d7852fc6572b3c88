"""Turns that threads share: each once, by torch's own pool, and by one thread where there is no OpenMP."""

import sys

import numpy as np
import pytest
from launch import run_job

from hpcai.kernels.cpu import parallel as team
from hpcai.kernels.cpu.compiled import compiled
from hpcai.kernels.cpu.parallel import ALONE, LIBRARIES, found, in_team

IN_A_PROCESS = """
import os, re, sys
import numpy as np
import torch
{before}
from hpcai.kernels.cpu import parallel as team
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
for name, function in zip(team.NAMES, team.ALONE):
    binding.add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)
"""


@compiled
def _add(turn: int, sums: np.ndarray, more: tuple[float, int], fails: int) -> None:
    if turn == fails:
        raise ValueError("planted")
    sums[turn] += more[0] * turn + more[1]


@compiled
def _add_all(turns: int, sums: np.ndarray, more: tuple[float, int], fails: int) -> None:
    in_team(_add, turns, (sums, more, fails))


@pytest.mark.parametrize("turns", [0, 1, 2, 5])
def test_each_turn_is_taken_once(turns: int) -> None:
    sums = np.zeros(6)
    _add_all(turns, sums, (2.0, 3), -1)
    assert sums.tolist() == [3.0 + 2 * turn if turn < turns else 0 for turn in range(6)]


@pytest.mark.parametrize(("turns", "fails"), [(1, 0), (3, 0), (3, 2)])
def test_a_turn_that_fails_is_told(turns: int, fails: int) -> None:
    with pytest.raises(RuntimeError, match="_add.* failed in a thread"):
        _add_all(turns, np.zeros(6), (2.0, 3), fails)


def threads(before: str = "", after: str = "") -> list[str]:
    """Of a process that multiplied by torch's kernels and by ours: threads, OpenMP libraries, whether Numba's pool."""
    finished = run_job(["-c", IN_A_PROCESS.format(before=before, after=after)], None)
    assert not finished.stderr and finished.returncode == 0, finished.stderr
    return finished.stdout.split()


@pytest.mark.skipif(found(LIBRARIES) is ALONE, reason="TORCH HAS NO OpenMP HERE: ITS POOL IS NOT SHARED")
@pytest.mark.skipif(sys.platform != "linux", reason="PROCESSES' THREADS ARE COUNTED ON LINUX ONLY")
def test_threads_are_those_of_torch() -> None:
    alone = threads("", NO_OPENMP)
    assert threads() == alone == [str(int(alone[0])), "1", "False"]


def test_without_openmp_one_thread_takes_all_turns() -> None:
    assert found(["/nowhere/libgomp.so", "libm.so.6"]) is ALONE
    assert len(team.NAMES) == len(ALONE)
    without = threads("torch.set_num_threads = lambda number: None; torch.ones(9) @ torch.ones(9)", NO_OPENMP)
    assert int(without[0]) < int(threads()[0])

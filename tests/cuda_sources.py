"""CUDA sources of our kernels without a GPU: made into a library for the host, and compiled for devices."""

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from launch import ROOT


def library(kernel: str, folder: Path) -> ctypes.CDLL:
    """The kernel as C++, called by tests/<kernel>_on_host.cpp; skips where there is no compiler."""
    if not shutil.which("g++"):
        pytest.skip(f"NO g++: {kernel}.cu NOT RUN ON THE HOST")
    source = folder / f"{kernel}.cu"
    text = (ROOT / "kernels" / kernel / f"{kernel}.cu").read_text()
    source.write_text(text.replace("extern __shared__", "extern"))  # memory of a size known only at the launch
    flags = ["-std=c++17", "-O1", "-ffp-contract=off", "-Wall", "-Wno-unused-function", "-Werror", "-shared", "-fPIC"]
    target = folder / f"{kernel}.so"
    harness = ROOT / "tests" / f"{kernel}_on_host.cpp"
    subprocess.run(["g++", *flags, f'-DKERNEL="{source}"', "-o", target, harness], check=True)
    return ctypes.CDLL(str(target))


def pointers(*arrays: Any) -> list[ctypes.c_void_p]:
    """Addresses of arrays in one piece."""
    assert all(array.flags.c_contiguous for array in arrays)
    return [ctypes.c_void_p(array.ctypes.data) for array in arrays]


def compile_for(architecture: str, kernel: str, folder: Path) -> None:
    """By nvcc; skips where there is none."""
    if not shutil.which("nvcc"):
        pytest.skip(f"NO nvcc: {kernel}.cu NOT COMPILED")
    target, source = folder / "kernel.cubin", ROOT / "kernels" / kernel / f"{kernel}.cu"
    options = ["-std=c++17", "--fmad=false", f"-arch={architecture}", "-cubin", "-Werror", "all-warnings"]
    subprocess.run(["nvcc", *options, "-o", target, source], check=True)
    assert target.stat().st_size > 1000

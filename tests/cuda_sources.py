"""CUDA sources of our kernels without a GPU: made into a library for the host, and compiled for devices."""

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

from complete import missing
from launch import ROOT

from hpcai.kernels.cuda.architecture import Target, target
from hpcai.kernels.cuda.compiler import Compiled, supported
from hpcai.kernels.spec import Unavailable

ARCHITECTURES = {"sm_80": (8, 0), "sm_90a": (9, 0), "sm_100": (10, 0)}


def library(kernel: str, folder: Path) -> ctypes.CDLL:
    """The kernel as C++, called by tests/<kernel>_on_host.cpp."""
    source = folder / f"{kernel}.cu"
    text = (ROOT / "kernels" / kernel / f"{kernel}.cu").read_text()
    source.write_text(text.replace("extern __shared__", "extern"))  # memory of a size known only at the launch
    flags = ["-std=c++17", "-O1", "-ffp-contract=off", "-Wall", "-Wno-unused-function", "-Werror", "-shared", "-fPIC"]
    made = folder / f"{kernel}.so"
    harness = ROOT / "tests" / f"{kernel}_on_host.cpp"
    subprocess.run([host_compiler(kernel), *flags, f'-DKERNEL="{source}"', "-o", made, harness], check=True)
    return ctypes.CDLL(str(made))


def host_compiler(kernel: str) -> str:
    """g++; a failure or a skip without it."""
    return shutil.which("g++") or missing(f"NO g++: {kernel}.cu NOT RUN ON THE HOST")


def pointers(*arrays: Any) -> list[ctypes.c_void_p]:
    """Addresses of arrays in one piece."""
    assert all(array.flags.c_contiguous for array in arrays)
    return [ctypes.c_void_p(array.ctypes.data) for array in arrays]


def device_target(architecture: str) -> Target:
    """The target of that name, one of ARCHITECTURES; a failure or a skip without NVRTC."""
    try:
        found = target(ARCHITECTURES[architecture], supported())
    except Unavailable as reason:
        missing(f"NO NVRTC: CUDA SOURCES ARE NOT COMPILED: {reason}")
    assert found.name == architecture
    return found


def faults(made: Compiled) -> list[str]:
    """What is wrong with machine code that is to be fast: warnings, and registers that do not suffice."""
    spilled = [f"{name} spills {usage.spilled} bytes" for name, usage in made.usage.items() if usage.spilled]
    unknown = [] if made.usage and all(usage.registers for usage in made.usage.values()) else ["no registers are told"]
    return [*made.complaints, *spilled, *unknown]

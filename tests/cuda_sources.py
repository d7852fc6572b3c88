"""CUDA sources of our kernels without a GPU: what compiles them for the host, and for devices."""

import shutil

from machine_requirements import missing

from hpcai.kernels.cuda.architecture import Target, target
from hpcai.kernels.cuda.compiler import Compiled, supported
from hpcai.kernels.providers import Unavailable

ARCHITECTURES = {"sm_80": (8, 0), "sm_90a": (9, 0), "sm_100": (10, 0)}


def host_compiler(kernel: str) -> str:
    """g++; a failure or a skip without it."""
    return shutil.which("g++") or missing(f"NO g++: {kernel}.cu NOT RUN ON THE HOST")


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

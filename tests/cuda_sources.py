"""CUDA sources of the custom kernels without a GPU: compilers for the host, and for devices."""

import shutil

from machine_requirements import missing

from hpcai.kernels.cuda.architecture import Target, target
from hpcai.kernels.cuda.compiler import Compiled, supported
from hpcai.kernels.providers import Unavailable

ARCHITECTURES = {"sm_80": (8, 0), "sm_90a": (9, 0), "sm_100": (10, 0)}


def host_compiler(kernel: str) -> str:
    """g++; a failure or a skip if it is missing."""
    return shutil.which("g++") or missing(f"NO g++: {kernel}.cu NOT RUN ON THE HOST")


def device_target(architecture: str) -> Target:
    """The target of that name, one of ARCHITECTURES; a failure or a skip if NVRTC is missing."""
    try:
        found = target(ARCHITECTURES[architecture], supported())
    except Unavailable as reason:
        missing(f"NO NVRTC: CUDA SOURCES ARE NOT COMPILED: {reason}")
    assert found.name == architecture
    return found


def faults(made: Compiled) -> list[str]:
    """Defects of compiled machine code: warnings, spilled registers, an unknown number of registers."""
    spilled = [f"{name} spills {usage.spilled} bytes" for name, usage in made.usage.items() if usage.spilled]
    unknown = [] if made.usage and all(usage.registers for usage in made.usage.values()) else ["no registers listed"]
    return [*made.complaints, *spilled, *unknown]

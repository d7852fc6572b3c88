"""Checks that this node has the compilers that a value of COMPILE needs.

torch.compile generates C++ for a CPU; for a GPU it generates Triton kernels, and C to launch them.
"""

import os
import subprocess
import sysconfig
import tempfile
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

HEADERS = {"c++": ("Python.h", "omp.h", "vector"), "c": ("Python.h",)}
PACKAGES = {"c++": "g++ and python3-dev", "c": "gcc and python3-dev"}
TIMEOUT = 60.0  # seconds


def refusal(how: str, degree: int, gpu: bool) -> str:
    """Why a network cannot be executed as the KEY COMPILE says; empty if it can."""
    if how == "graphs" and not gpu:
        return "COMPILE graphs needs a GPU; allowed here: off, torch"
    if how == "graphs" and degree > 1:
        # a captured backward pass delivers all gradients at its end: no communication would overlap with it
        return f"COMPILE graphs with DEGREE {degree}: gradients could not be sent during the backward pass; allowed: 1"
    if how == "torch" and (reason := obstacle(gpu)):
        return f"COMPILE torch: {reason}; allowed without: off"
    return ""


def obstacle(gpu: bool) -> str:
    """Why torch.compile cannot work here, and what to install; empty if it can. Compiles a small library."""
    if gpu and find_spec("triton") is None:
        return "the package triton is missing, which compiles its kernels for the GPU"
    language = "c" if gpu else "c++"
    command = os.environ.get("CC", "gcc") if gpu else os.environ.get("CXX", "g++")
    error = _compiler_error(command, language)
    return f"{command} cannot build what it writes ({error}): install {PACKAGES[language]}" if error else ""


@lru_cache
def _compiler_error(command: str, language: str) -> str:
    """The first error of a compiler that builds a small library, or of the attempt to call it; empty if it works."""
    program = "".join(f"#include <{header}>\n" for header in HEADERS[language])
    openmp = ["-fopenmp"] if language == "c++" else []
    with tempfile.TemporaryDirectory() as folder:
        options = ["-shared", "-fPIC", *openmp, "-I", sysconfig.get_path("include"), "-o", str(Path(folder, "a.so"))]
        call = [*command.split(), "-x", language, *options, "-"]
        try:
            done = subprocess.run(call, input=program, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return getattr(error, "strerror", None) or f"no end after {TIMEOUT:.0f} s"
    return "" if done.returncode == 0 else _first_error(done.stderr)


def _first_error(text: str) -> str:
    lines = text.splitlines() or ["it gives no reason"]
    return next((line for line in lines if "error" in line), lines[0]).strip()

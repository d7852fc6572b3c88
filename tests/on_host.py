"""CUDA kernels run on the host: what is to be launched, by a library that a compiler of C++ makes of the same source.

tests/cuda_host/ has the bodies of all instructions. Memory of arrays of NumPy stands for that of a GPU.
"""

import ctypes
import hashlib
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from complete import missing
from launch import ROOT

from hpcai.kernels.cuda.launch import Launch, structure
from hpcai.kernels.cuda.program import Program, sources
from hpcai.kernels.cuda.tensor_map import ELEMENTS, Tiled

HERE = ROOT / "tests" / "cuda_host"
FLAGS = ["-std=c++17", "-O1", "-fno-strict-aliasing", "-U_FORTIFY_SOURCE", "-ffp-contract=off", "-shared", "-fPIC"]
OFF = ["unused", "sign-compare", "enum-compare", "psabi", "unknown-pragmas"]
WARNINGS = ["-Wall", "-Werror", *(f"-Wno-{name}" for name in OFF)]
SCHEDULES = ("round robin", "ascending", "descending")
# Kernels of a file and their parameters' types.
PARAMETERS = {"join": "Joined"}
MAP = structure(
    *(("address", "u8"), ("rank", "u4"), ("element_bytes", "u4"), ("dims", ("u8", 5)), ("strides", ("u8", 4))),
    *(("box", ("u4", 5)), ("swizzle", "u4"), ("rounded", "u4")),
)


def encoded(tiled: Tiled) -> Any:
    """A tensor map as tests/cuda_host/host_words_sm90.h reads it."""
    found = np.zeros(128, np.uint8)
    map = found[: MAP.itemsize].view(MAP)
    map["address"], map["rank"], map["element_bytes"] = tiled.address, len(tiled.dims), ELEMENTS[tiled.dtype].nbytes
    for name in ("dims", "strides", "box"):
        map[name][0, : len(getattr(tiled, name))] = getattr(tiled, name)
    map["swizzle"], map["rounded"] = tiled.swizzle, tiled.dtype == "tfloat32"
    return found


def run(launch: Launch, schedule: str, library: ctypes.CDLL | None = None) -> None:
    """Launch a kernel of one parameter under a schedule; AssertionError with what went wrong."""
    library = library or built(launch.program, launch.program.path)
    (given,) = launch.arguments
    assert library.nbytes() == given.itemsize, "the struct of Python is not that of C++"
    (clusters,) = [value for name, value in launch.program.definitions if name == "USE_CLUSTER"] or [1]
    grid = (ctypes.c_uint * 3)(*launch.grid)
    cluster = clusters if launch.program.name != "join" else 1
    place = ctypes.c_void_p(given.ctypes.data)
    wrong = library.run(
        place, grid, launch.block, cluster, ctypes.c_size_t(launch.shared), SCHEDULES.index(schedule)
    )
    assert not wrong, f"{launch.program.name}, {schedule}: {wrong.decode()}"


@cache
def built(program: Program, source: Path) -> ctypes.CDLL:
    """The kernel as a library of the host, from its own source or, of a planted fault, from another one."""
    if not shutil.which("g++"):
        missing(f"NO g++: {program.source} NOT RUN ON THE HOST")
    defined = [f"-D{name}={value}" for name, value in program.definitions]
    defined += [f'-DKERNEL="{source}"', f"-DNAME={program.name}"]
    defined += [f"-DPARAMETERS={PARAMETERS.get(program.name, 'Parameters')}"]
    folders = [f"-I{HERE}", f"-I{source.parent}", f"-I{ROOT / 'kernels' / 'cuda'}"]
    target = _place() / f"{_digest(source, defined)}.so"
    if not target.exists():
        subprocess.run(["g++", *FLAGS, *WARNINGS, *folders, *defined, "-o", target, HERE / "run.cpp"], check=True)
    library = ctypes.CDLL(str(target))
    library.run.restype = ctypes.c_char_p
    library.nbytes.restype = ctypes.c_size_t
    return library


@cache
def _place() -> Path:
    return Path(tempfile.mkdtemp(prefix="hpcai-on-host-"))


def _digest(source: Path, defined: list[str]) -> str:
    words = hashlib.sha256("\n".join(defined).encode())
    for path in [*sources(source), *sorted(HERE.iterdir())]:
        words.update(path.read_bytes())
    return words.hexdigest()[:16]

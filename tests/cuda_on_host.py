"""CUDA kernels run on the host: each launch is executed by a library that a C++ compiler makes of the same source.

tests/cuda_host/ has the bodies of all instructions. NumPy arrays stand for the memory of a GPU.
"""

import atexit
import ctypes
import hashlib
import itertools
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from cuda_sources import host_compiler
from launch import ROOT

from hpcai.kernels.cuda.launch import Launch, structure
from hpcai.kernels.cuda.program import Program, sources
from hpcai.kernels.cuda.tensor_map import ELEMENTS, Tiled

HERE = ROOT / "tests" / "cuda_host"
FLAGS = ["-std=c++17", "-O1", "-fno-strict-aliasing", "-U_FORTIFY_SOURCE", "-ffp-contract=off", "-fPIC"]
OFF = ["unused", "sign-compare", "enum-compare", "psabi", "unknown-pragmas"]
WARNINGS = ["-Wall", "-Werror", *(f"-Wno-{name}" for name in OFF)]
SHARED = ("fibres", "block")  # sources of tests/cuda_host/ that depend on no kernel
SCHEDULES = ("round robin", "ascending", "descending")
ALONE = ("reduce_split_k", "transpose")  # kernels without clusters in files whose other kernels have some
MAP = structure(
    *(("address", "u8"), ("rank", "u4"), ("element_bytes", "u4"), ("dims", ("u8", 5)), ("strides", ("u8", 4))),
    *(("box", ("u4", 5)), ("swizzle", "u4"), ("rounded", "u4")),
)


def encoded(tiled: Tiled) -> Any:
    """A tensor map as tests/cuda_host/host_ptx_sm90.h reads it."""
    found = np.zeros(128, np.uint8)
    map = found[: MAP.itemsize].view(MAP)
    map["address"], map["rank"], map["element_bytes"] = tiled.address, len(tiled.dims), ELEMENTS[tiled.dtype].nbytes
    for name in ("dims", "strides", "box"):
        map[name][0, : len(getattr(tiled, name))] = getattr(tiled, name)
    map["swizzle"], map["rounded"] = tiled.swizzle, tiled.dtype == "tfloat32"
    return found


def run(
    launch: Launch, schedule: str, library: ctypes.CDLL | None = None, operands: Sequence[tuple[int, int]] = ()
) -> None:
    """Launch a kernel under a schedule; AssertionError with the cause if it fails.

    Copies that read outside of the operands, if these are given by addresses of their begins and ends, are failures.
    """
    library = library or built(launch.program, launch.program.path)
    library.allow((ctypes.c_size_t * (2 * len(operands)))(*itertools.chain(*operands)), ctypes.c_size_t(len(operands)))
    given = [np.atleast_1d(each) for each in launch.arguments]
    sizes = [library.nbytes(place) for place in range(len(given) + 1)]
    assert sizes == [*(each.nbytes for each in given), 0], "the arguments of Python are not those of C++"
    places = (ctypes.c_void_p * len(given))(*(each.ctypes.data for each in given))
    size = ((ctypes.c_uint * 3)(*launch.grid), launch.block, _cluster(launch.program), ctypes.c_size_t(launch.shared))
    wrong = library.run(places, *size, SCHEDULES.index(schedule))
    assert not wrong, f"{launch.program.name}, {schedule}: {wrong.decode()}"


def _cluster(program: Program) -> Any:
    """Blocks of a cluster; kernels that only prepare or finish have no cluster."""
    return dict(program.definitions).get("USE_CLUSTER", 1) if program.name not in ALONE else 1


def build_all(programs: Iterable[Program]) -> None:
    """Build kernels from their own sources, as many at a time as there are processors."""
    _ahead()
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(lambda program: built(program, program.path), {*programs}))


@cache
def built(program: Program, source: Path) -> ctypes.CDLL:
    """The kernel as a library of the host, from its own source or, for a planted fault, from another one."""
    defined = [f"-D{name}={value}" for name, value in program.definitions]
    defined += [f'-DKERNEL_SOURCE="{source}"', f"-DKERNEL_NAME={program.name}"]
    folders = [f"-I{_ahead()}", f"-I{HERE}", f"-I{source.parent}", f"-I{ROOT / 'kernels' / 'cuda'}"]
    target = _place() / f"{_digest(source, defined)}.so"
    if not target.exists():
        objects = [HERE / "run.cpp", *(_ahead() / f"{name}.o" for name in SHARED)]
        own = target.with_suffix(f".{threading.get_ident()}")  # another thread may be building the same
        _compile(program.source, "-shared", "-include", "common.h", *folders, *defined, "-o", own, *objects)
        own.replace(target)
    library = ctypes.CDLL(str(target))
    library.run.restype = ctypes.c_char_p
    library.nbytes.restype, library.nbytes.argtypes = ctypes.c_size_t, [ctypes.c_size_t]
    return library


def planted(program: Program, folder: Path, right: str, wrong: str, place: int = 0) -> ctypes.CDLL:
    """The kernel with a fault: in the first of its files that contain `right`, its occurrence number `place`, counted
    from 0, is replaced by `wrong`.
    """
    file = next(path for path in sources(program.path) if right in path.read_text())
    before, *after = file.read_text().split(right)
    text = before + "".join((wrong if number == place else right) + part for number, part in enumerate(after))
    assert 0 <= place < len(after), f"{file.name} has not {place + 1} of {right!r}"
    for path in sources(program.path):  # all of them: included files are searched in the same folder
        (folder / path.name).write_text(text if path == file else path.read_text())
    return built(program, folder / program.path.name)


@cache
def _ahead() -> Path:
    """The folder with the precompiled header of all kernels: most of the time that each kernel would take."""
    header = _place() / "common.h"
    header.write_text('#include "block.h"\n')
    _compile("THE HOST", "-x", "c++-header", f"-I{HERE}", header, "-o", f"{header}.gch")
    for name in SHARED:
        _compile("THE HOST", "-O2", "-c", HERE / f"{name}.cpp", "-o", _place() / f"{name}.o")
    return _place()


def _compile(what: str, *options: Any) -> None:
    subprocess.run([host_compiler(what), *FLAGS, *WARNINGS, *options], check=True)


@cache
def _place() -> Path:
    place = Path(tempfile.mkdtemp(prefix="hpcai-on-host-"))
    atexit.register(shutil.rmtree, place)
    return place


def _digest(source: Path, defined: list[str]) -> str:
    words = hashlib.sha256("\n".join(defined).encode())
    for path in [*sources(source), *sorted(HERE.iterdir())]:
        words.update(path.read_bytes())
    return words.hexdigest()[:16]

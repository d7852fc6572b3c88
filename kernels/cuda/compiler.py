"""Compilation of CUDA C++ by NVRTC, which needs neither a GPU nor a driver, with a cache on disk.

The cache is in the folder of HPCAI_CUDA_CACHE_DIR, or in the default folder of code_cache.py.
"""

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from .. import code_cache
from ..providers import Unavailable
from .architecture import CUBIN, Target
from .program import HEADERS, Program, digest

PLACE = "HPCAI_CUDA_CACHE_DIR"
_COMPLAINT = re.compile(r"\bwarning\s*[#:]|performance loss", re.IGNORECASE)
_FUNCTION = re.compile(r"Function properties for (\S+)\n(.*?)(?=Function properties for|\Z)", re.DOTALL)


class CompileError(Exception):
    """A program that does not compile: the program, the target and the compiler's log."""


class Usage(NamedTuple):
    """Resources of a function by the assembler's report: registers, local memory and spills in bytes a thread."""

    registers: int
    stack: int
    spilled: int


@dataclass(frozen=True)
class Compiled:
    """Machine code or PTX, terminated by zero as the driver expects, and the log of compiler and assembler."""

    image: bytes
    log: str

    @property
    def usage(self) -> dict[str, Usage]:
        """Resources by function name; for machine code only."""
        return {name: _usage(text) for name, text in _FUNCTION.findall(self.log)}

    @property
    def complaints(self) -> list[str]:
        """Warnings, and the assembler's reports of lost performance."""
        return [line for line in self.log.splitlines() if _COMPLAINT.search(line)]


def _usage(text: str) -> Usage:
    def number(pattern: str) -> int:
        return sum(map(int, re.findall(pattern, text)))

    return Usage(number(r"Used (\d+) registers"), number(r"(\d+) bytes stack frame"), number(r"(\d+) bytes spill"))


def compiled(program: Program, target: Target) -> Compiled:
    """The compiled file of a program for a target, from the cache if present.

    CompileError if it does not compile, Unavailable without NVRTC.
    """
    version = "{}.{}".format(*_nvrtc().getVersion())
    name = digest(program, *_options(target), f"NVRTC {version}")
    return _read(name) or _write(name, _compile(program, target))


def _options(target: Target) -> tuple[str, ...]:
    return f"--gpu-architecture={target.name}", f"--include-path={HEADERS}", "--ptxas-options=-v"


def compile_all(programs: Sequence[Program], target: Target, workers: int) -> list[Compiled]:
    """Compile several programs in `workers` threads; NVRTC releases the interpreter's lock."""
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda program: compiled(program, target), programs))


def supported() -> tuple[int, ...]:
    """Architectures that NVRTC supports, such as 90. Unavailable without NVRTC."""
    return tuple(_nvrtc().getSupportedArchs())


def _nvrtc() -> Any:
    try:
        from cupy.cuda import nvrtc

        nvrtc.getVersion()
    except (ImportError, OSError, RuntimeError) as error:  # RuntimeError: CuPy is installed, the library is missing
        raise Unavailable(f"NVRTC, the compiler of CUDA C++: {str(error).partition(chr(10))[0]}") from None
    return nvrtc


def _compile(program: Program, target: Target) -> Compiled:
    nvrtc = _nvrtc()
    with _made(nvrtc, program) as handle:
        try:
            nvrtc.compileProgram(handle, (*program.options, *_options(target)))
        except nvrtc.NVRTCError as error:
            raise CompileError(f"{program} for {target.name}: {error}\n{nvrtc.getProgramLog(handle)}") from None
        image = nvrtc.getCUBIN(handle) if target.kind == CUBIN else nvrtc.getPTX(handle)
        log = nvrtc.getProgramLog(handle).replace("\0", "")  # separates the logs of compiler and assembler
        return Compiled(image + b"\0", log)  # CuPy strips the last byte, of machine code as well


@contextmanager
def _made(nvrtc: Any, program: Program) -> Iterator[Any]:
    # Absolute path: includes are resolved relative to the file, not to the working directory.
    handle = nvrtc.createProgram(program.path.read_text(encoding="utf-8"), str(program.path), (), ())
    try:
        yield handle
    finally:
        nvrtc.destroyProgram(handle)


def _read(name: str) -> Compiled | None:
    """The cached entry of that name; None if it is missing or damaged."""
    folder = code_cache.folder("cuda", PLACE)
    with suppress(OSError):
        if folder:
            log, _, image = code_cache.read(folder / name).partition(b"\0")
            return Compiled(image, log.decode())
    return None


def _write(name: str, made: Compiled) -> Compiled:
    """Write an entry, if there is room."""
    folder = code_cache.folder("cuda", PLACE)
    with suppress(OSError):
        if folder:
            code_cache.write(folder / name, made.log.encode() + b"\0" + made.image)
    return made

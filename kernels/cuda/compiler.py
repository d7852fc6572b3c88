"""From CUDA C++ to machine code by NVRTC, which needs neither a GPU nor a driver.

What it made is kept on disk: in the folder that HPCAI_CUDA_CACHE_DIR names, else where `kept` finds room.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import uuid4

from .. import kept
from ..providers import Unavailable
from .architecture import CUBIN, Target
from .program import HEADERS, Program, digest

PLACE = "HPCAI_CUDA_CACHE_DIR"
_CHECKSUM = hashlib.sha256
_COMPLAINT = re.compile(r"\bwarning\s*[#:]|performance loss", re.IGNORECASE)
_FUNCTION = re.compile(r"Function properties for (\S+)\n(.*?)(?=Function properties for|\Z)", re.DOTALL)


class CompileError(Exception):
    """A program that the compiler refuses: which, for what, and all that it says."""


class Usage(NamedTuple):
    """What a function needs, by the assembler: registers and bytes of local memory a thread, and those of spilling."""

    registers: int
    stack: int
    spilled: int


@dataclass(frozen=True)
class Compiled:
    """Machine code or PTX, ended by a zero as the driver wants it, and what compiler and assembler say of it."""

    image: bytes
    log: str

    @property
    def usage(self) -> dict[str, Usage]:
        """By the function's name; of machine code only."""
        return {name: _usage(text) for name, text in _FUNCTION.findall(self.log)}

    @property
    def complaints(self) -> list[str]:
        """Lines that warn, the assembler's of performance that is lost among them."""
        return [line for line in self.log.splitlines() if _COMPLAINT.search(line)]


def _usage(text: str) -> Usage:
    def number(pattern: str) -> int:
        return sum(map(int, re.findall(pattern, text)))

    return Usage(number(r"Used (\d+) registers"), number(r"(\d+) bytes stack frame"), number(r"(\d+) bytes spill"))


def compiled(program: Program, target: Target) -> Compiled:
    """The program's file for a target, from disk if it was compiled before.

    CompileError if it cannot be compiled, Unavailable without NVRTC.
    """
    version = "{}.{}".format(*_nvrtc().getVersion())
    name = digest(program, *_options(target), f"NVRTC {version}")
    return _read(name) or _write(name, _compile(program, target))


def _options(target: Target) -> tuple[str, ...]:
    return f"--gpu-architecture={target.name}", f"--include-path={HEADERS}", "--ptxas-options=-v"


def compile_all(programs: Sequence[Program], target: Target, workers: int) -> list[Compiled]:
    """Several programs in so many threads; NVRTC works outside the interpreter's lock."""
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda program: compiled(program, target), programs))


def supported() -> tuple[int, ...]:
    """Architectures that NVRTC compiles for, such as 90. Unavailable without NVRTC."""
    return tuple(_nvrtc().getSupportedArchs())


def _nvrtc() -> Any:
    try:
        from cupy.cuda import nvrtc

        nvrtc.getVersion()
    except (ImportError, OSError, RuntimeError) as error:  # RuntimeError: CuPy is there, the library is not
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
        log = nvrtc.getProgramLog(handle).replace("\0", "")  # between what the compiler and the assembler say
        return Compiled(image + b"\0", log)  # CuPy took the last byte off, of machine code as well


@contextmanager
def _made(nvrtc: Any, program: Program) -> Iterator[Any]:
    # The whole path: what the file includes is looked for beside it, and not where the job was started.
    handle = nvrtc.createProgram(program.path.read_text(encoding="utf-8"), str(program.path), (), ())
    try:
        yield handle
    finally:
        nvrtc.destroyProgram(handle)


def _read(name: str) -> Compiled | None:
    """What was kept under that name; None if nothing is there, or not the whole of it."""
    folder = kept.folder("cuda", PLACE)
    with suppress(OSError):
        data = (folder / name).read_bytes() if folder else b""
        checksum, body = data[:32], data[32:]
        if _CHECKSUM(body).digest() == checksum:
            log, _, image = body.partition(b"\0")
            return Compiled(image, log.decode())
    return None


def _write(name: str, made: Compiled) -> Compiled:
    """Kept for later, as a whole or not at all, where there is room for it."""
    body = made.log.encode() + b"\0" + made.image
    folder = kept.folder("cuda", PLACE)
    if folder is not None:
        unfinished = folder / f"{name}.{uuid4().hex}"  # ranks of other nodes may write here as well
        try:
            unfinished.write_bytes(_CHECKSUM(body).digest() + body)
            os.replace(unfinished, folder / name)
        except OSError:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
    return made

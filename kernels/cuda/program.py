"""Source of a CUDA kernel with its definitions."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..code_cache import HERE

HEADERS = HERE / "cuda"
_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


@dataclass(frozen=True)
class Program:
    """A kernel: file below kernels/, extern "C" name, -D definitions, and whether a product and a sum may be fused."""

    source: str
    name: str
    definitions: tuple[tuple[str, int | str], ...] = ()
    fused_multiply_add: bool = True

    @property
    def path(self) -> Path:
        """The source file."""
        return HERE / self.source

    @property
    def options(self) -> tuple[str, ...]:
        """Compiler options, without the target."""
        defined = (f"-D{name}={value}" for name, value in self.definitions)
        return ("--std=c++17", f"--fmad={str(self.fused_multiply_add).lower()}", *defined)

    def __str__(self) -> str:
        return " ".join([self.source, *(f"{name}={value}" for name, value in self.definitions)])


def digest(program: Program, *others: str) -> str:
    """Digest of everything that determines the machine code: the file and its includes, the options, and `others`."""
    words = hashlib.sha256("\n".join([*program.options, *others]).encode())
    for path in sources(program.path):
        words.update(f"\n{path.name}\n".encode() + path.read_bytes())
    return words.hexdigest()


def sources(path: Path) -> list[Path]:
    """A file and all its quoted includes, each once; the compiler reports files that are missing."""
    found = [path]
    for each in found:  # the list grows during the loop
        found += [path for path in _included(each) if path not in found]
    return found


def _included(path: Path) -> Iterator[Path]:
    names = dict.fromkeys(_INCLUDE.findall(path.read_text(encoding="utf-8")))
    for name in names:
        places = ((folder / name).resolve() for folder in (path.parent, HEADERS))
        yield from [place for place in places if place.is_file()][:1]

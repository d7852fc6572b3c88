"""How loops in Python become machine code on this machine, and where that is kept."""

import hashlib
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba import njit
from numba.core.caching import FunctionCache

from ..kept import HERE
from ..kept import folder as kept_folder

_njit: Any = njit
F = TypeVar("F", bound=Callable[..., Any])

PLACE = "NUMBA_CACHE_DIR"
# what reading a file raises that was cut off, or overwritten
DAMAGED = (
    *(pickle.UnpicklingError, EOFError, OSError, AttributeError, ImportError),
    *(IndexError, KeyError, RuntimeError, TypeError, ValueError),
)

_settings: Any = numba.config
if _settings.DISABLE_JIT:
    raise ImportError("NUMBA_DISABLE_JIT is set, and our kernels are nothing before they are compiled")


def compiled(function: F) -> F:
    """The function as machine code, kept on disk where there is a folder that can be written to.

    It runs without the interpreter's lock, and starts no threads.
    """
    return _kept(function)


def parallel(function: F) -> F:
    """Like `compiled`; its prange loop shares its turns out among threads.

    Let a function have one such loop: Numba joins loops that follow one another, and then no thread waits between them.
    """
    return _kept(function, parallel=True)


def _kept(function: F, **options: bool) -> F:
    dispatcher = _njit(nogil=True, **options)(function)
    folder = _folder(Path(function.__code__.co_filename).resolve().parent)
    if folder is not None:
        with _at(folder):
            dispatcher._cache = _Cache(function)
    return cast(F, dispatcher)


class _Cache(FunctionCache):
    """What is damaged on disk is compiled anew, and what finds no room there is not kept: neither ends a run."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except DAMAGED:
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):
            super().save_overload(sig, data)


@contextmanager
def _at(folder: Path | None) -> Iterator[None]:
    before, _settings.CACHE_DIR = _settings.CACHE_DIR, str(folder or "")
    try:
        yield
    finally:
        _settings.CACHE_DIR = before


def kept() -> bool:
    """Whether machine code of these sources is on disk: what is used first need not be compiled first."""
    folder = _folder()
    return folder is not None and any(folder.rglob("*.nbi"))


@cache
def _folder(home: Path = HERE) -> Path | None:
    """A folder of these very sources, and of those in `home` if that lies elsewhere; None if none can be made.

    Numba looks at a function's own file for changes, but what it calls is compiled into it: so all files count.
    """
    return kept_folder(f"numba-{_digest(home)}", PLACE)


@cache
def _digest(home: Path) -> str:
    digest = hashlib.sha256()
    beside = [] if home.is_relative_to(HERE) else sorted(home.glob("*.py"))
    for source in [*sorted(HERE.rglob("*.py")), *beside]:
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]

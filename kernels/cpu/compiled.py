"""Compilation of Python loops by Numba, and its cache of machine code on disk."""

import hashlib
import pickle
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba import njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile
from numba.core.caching import _CacheLocator as CacheLocator

from .. import code_cache
from ..code_cache import HERE
from .compile_lock import CompileLock
from .wrappers import Wrappers

_njit: Any = njit
F = TypeVar("F", bound=Callable[..., Any])

PLACE = "NUMBA_CACHE_DIR"
# exceptions from reading a file that was truncated or overwritten
DAMAGED = (
    *(pickle.UnpicklingError, EOFError, OSError, AttributeError, ImportError),
    *(IndexError, KeyError, RuntimeError, TypeError, ValueError),
)

_settings: Any = numba.config
if _settings.DISABLE_JIT:
    raise ImportError("NUMBA_DISABLE_JIT is set, but the custom kernels must be compiled")


def compiled(function: F) -> F:
    """Compile a function to machine code, cached on disk where a folder is writable.

    The code runs without the interpreter's lock. Threads are those of `parallel_for`.
    """
    return _compiled(function)


def vectorised(function: F) -> F:
    """The same for a loop that vectors compute: sums are added in any order, and a division by 0 is no error."""
    return _compiled(function, fastmath={"reassoc"}, error_model="numpy")


def _compiled(function: F, **options: Any) -> F:
    dispatcher = _njit(nogil=True, **options)(function)
    wrappers = Wrappers(dispatcher)
    if _folder(_home(function.__code__.co_filename)) is not None:
        dispatcher._cache = _Cache(function, wrappers)
        dispatcher.compile = dispatcher._cache.releasing(dispatcher.compile)
    return cast(F, dispatcher)


class _Place(CacheLocator):
    """Cache location by the contents of the sources, not by path and time: copies of a tree share machine code."""

    def __init__(self, path: Path, line: int) -> None:
        self._path, self._line = path, line

    @classmethod
    def from_function(cls, function: Any, file: str) -> "_Place":
        home = _home(file)
        folder = _folder(home)
        assert folder is not None  # otherwise nothing is cached and Numba asks for no location
        inside = home.relative_to(HERE) if home.is_relative_to(HERE) else Path("beside", home.name)
        return cls(folder / inside, function.__code__.co_firstlineno)

    def get_cache_path(self) -> str:
        return str(self._path)

    def get_source_stamp(self) -> str:
        return ""  # the name of the folder contains the digest

    def get_disambiguator(self) -> str:
        return str(self._line)


class _Code(CompileResultCacheImpl):
    _locator_classes: list[type[object]] = [_Place]  # noqa: RUF012, as in the base class


class _Files(IndexDataCacheFile):
    """Numba's index and data of a function, which it unpickles; owner and digest are verified before.

    Damaged machine code would crash the process.
    """

    def _load_index(self) -> Any:
        try:
            version, stamp, overloads = pickle.loads(code_cache.read(Path(self._index_path)))
        except FileNotFoundError:
            return {}
        return overloads if (version, stamp) == (self._version, self._source_stamp) else {}

    def _save_index(self, overloads: Any) -> None:
        code_cache.write(Path(self._index_path), self._dump((self._version, self._source_stamp, overloads)))

    def _load_data(self, name: str) -> Any:
        return pickle.loads(code_cache.read(Path(self._data_path(name))))

    def _save_data(self, name: str, data: Any) -> None:
        code_cache.write(Path(self._data_path(name)), self._dump(data))


class _Cache(FunctionCache):
    """Cache that recompiles damaged entries and skips entries it cannot write; neither ends a run.

    One process of a node at a time compiles a function.
    """

    _impl_class = _Code

    def __init__(self, function: Any, wrappers: Wrappers) -> None:
        super().__init__(function)
        self._wrappers = wrappers
        base, stamp = self._impl.filename_base, self._impl.locator.get_source_stamp()
        self._cache_file = _Files(self.cache_path, base, stamp)
        self._lock = CompileLock(f"{self.cache_path} {base}")

    def releasing(self, compile_overload: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Numba's method that loads or compiles a signature; afterwards the lock is released."""

        def compile_and_release(sig: Any) -> Any:
            try:
                return compile_overload(sig)
            finally:
                self._lock.release()

        return compile_and_release

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The machine code on disk; None, with the lock acquired, if it must be compiled."""
        found = self._load(sig, target_context)
        if found is None and self._lock.acquire():
            found = self._load(sig, target_context)
        return found

    def _load(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except DAMAGED:
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):
            super().save_overload(sig, data)

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        return (*super()._index_key(sig, codegen), self._wrappers.wanted)


def _home(file: str) -> Path:
    return Path(file).resolve().parent


def kept(kernel: str) -> bool:
    """Whether machine code of a kernel, by its folder here, is on disk, so that its first call does not compile."""
    folder = _folder()
    return folder is not None and any((folder / kernel).rglob("*.nbi"))


def _folder(home: Path = HERE) -> Path | None:
    """Cache folder for exactly these sources, and those of `home` if it lies outside; None if it cannot be created.

    Machine code contains all functions it calls, so every source file counts.
    """
    return _folder_of(() if home.is_relative_to(HERE) else (home,))


@cache
def _folder_of(outside: tuple[Path, ...]) -> Path | None:
    return code_cache.folder(f"numba-{_digest(outside)}", PLACE)


def _digest(outside: tuple[Path, ...]) -> str:
    digest = _own_sources().copy()
    for source in (file for home in outside for file in sorted(home.glob("*.py"))):
        digest.update(source.read_bytes())
    return str(digest.hexdigest()[:16])


@cache
def _own_sources() -> Any:
    digest = hashlib.sha256()
    for source in sorted(HERE.rglob("*.py")):
        digest.update(source.read_bytes())
    return digest

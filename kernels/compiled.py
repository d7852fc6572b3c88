"""How loops in Python become machine code on this machine."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """The function as machine code, kept on disk where Numba finds a folder that it can write to.

    It runs without the interpreter's lock, and starts no threads.
    """
    try:
        return cast(F, njit(function, nogil=True, cache=True))
    except RuntimeError:  # neither beside the source nor in the user's cache
        return cast(F, njit(function, nogil=True))


def parallel(function: F) -> F:
    """Like `compiled`; its prange loops share their turns out among threads."""
    try:
        return cast(F, njit(function, nogil=True, parallel=True, cache=True))
    except RuntimeError:
        return cast(F, njit(function, nogil=True, parallel=True))

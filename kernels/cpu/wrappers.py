"""Machine code without the wrappers by which Python and C call it, where only machine code calls it.

Numba gives every function that it compiles both wrappers, which take a quarter of the time.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import local
from typing import Any

from numba.core.compiler_lock import global_compiler_lock

NO_WRAPPERS = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

_thread = local()  # called: whether Python has called a function that is not compiled yet


class Wrappers:
    """Has a function compiled with wrappers for those types only with which Python calls it.

    wanted: whether the compilation under way is for a call by Python.
    """

    def __init__(self, dispatcher: Any) -> None:
        self.wanted = False
        self._dispatcher, self._options = dispatcher, dict(dispatcher._compiler.targetoptions)
        self._with_wrappers: set[tuple[Any, ...]] = set()
        self._call_before = dispatcher._compile_for_args
        self._compile_before = dispatcher.compile
        self._add_before = dispatcher.add_overload
        dispatcher._compile_for_args, dispatcher.compile, dispatcher.add_overload = self._call, self._compile, self._add

    def _call(self, *arguments: Any, **named: Any) -> Any:
        """Numba's method for a call by Python with types that have no machine code yet."""
        _thread.called = True
        try:
            return self._call_before(*arguments, **named)
        finally:
            _thread.called = False

    def _compile(self, types: Any) -> Any:
        """Numba's method that loads or compiles machine code: also for callers that are compiled, and for pointers."""
        called, _thread.called = getattr(_thread, "called", False), False
        with global_compiler_lock, self._options_for(called):
            if called and types not in self._with_wrappers:
                self._dispatcher.overloads.pop(types, None)
            return self._compile_before(types)

    @contextmanager
    def _options_for(self, called: bool) -> Iterator[None]:
        """Set Numba's options of a compilation, and afterwards those of the one within which it was needed."""
        compiler, before = self._dispatcher._compiler, self.wanted
        options, self.wanted = compiler.targetoptions, called
        compiler.targetoptions = self._options | ({} if called else NO_WRAPPERS)
        try:
            yield
        finally:
            compiler.targetoptions, self.wanted = options, before

    def _add(self, result: Any) -> None:
        """Numba's method that makes machine code known: to Python only where it has wrappers."""
        types = tuple(result.signature.args)
        if self.wanted:
            self._with_wrappers.add(types)
            self._add_before(result)
        else:
            self._dispatcher.overloads[types] = result

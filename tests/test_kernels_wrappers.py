"""Machine code that only machine code calls has no wrappers, until Python calls it as well."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkout import copy_kernels
from test_kernels_compiled import ran

from hpcai.kernels.cpu.compiled import compiled
from hpcai.kernels.cpu.function_pointer import call_pointer, function_pointer


def functions() -> tuple[Any, Callable[..., Any]]:
    """A function, and another that calls it, both without machine code."""

    @compiled
    def inner(number: Any) -> Any:
        return 3 * number

    @compiled
    def outer(number: Any) -> Any:
        return inner(number) + 1

    return inner, outer


def has_wrappers(function: Any, kind: type) -> bool:
    """Whether Python can call the function's machine code for a NumPy type."""
    (found,) = (result for types, result in function.overloads.items() if str(types[0]) == np.dtype(kind).name)
    return any(name.startswith("_ZN7cpython") for name in defined(found))


def defined(result: Any) -> list[str]:
    """Names of the functions that the machine code of a compilation contains."""
    return [each.name for each in result.library.get_defined_functions()]


@pytest.mark.parametrize("kind", [np.float32, np.int64])
def test_only_what_python_calls_has_wrappers(kind: type) -> None:
    inner, outer = functions()
    assert outer(kind(5)) == 16
    assert has_wrappers(outer, kind) and not has_wrappers(inner, kind)
    assert inner(kind(5)) == 15
    assert has_wrappers(inner, kind)
    assert outer(kind(6)) == 19


def test_each_type_has_wrappers_of_its_own() -> None:
    inner, outer = functions()
    assert inner(np.float64(5)) == 15 and outer(np.float32(5)) == 16
    assert has_wrappers(inner, np.float64) and not has_wrappers(inner, np.float32)
    assert outer(np.float64(5)) == 16 and inner(np.float32(5)) == 15


def test_a_function_that_is_called_by_pointer_can_be_called_by_python() -> None:
    inner, _ = functions()
    pointer = function_pointer(inner, np.float32(1))

    @compiled
    def caller(pointer: Any, number: Any) -> Any:
        return call_pointer(inner, pointer, (number,))

    assert caller(pointer, np.float32(5)) == 15 and not has_wrappers(inner, np.float32)
    assert inner(np.float32(5)) == 15 and caller(pointer, np.float32(6)) == 18


def test_an_error_in_an_inner_function_is_raised() -> None:
    @compiled
    def inner(a: Any, b: Any) -> Any:
        return a // b

    @compiled
    def outer(a: Any, b: Any) -> Any:
        return inner(a, b)

    for function in (outer, inner):
        with pytest.raises(ZeroDivisionError):
            function(1, 0)


CALLS = """
from hpcai.kernels.cpu.compiled import compiled

@compiled
def inner(number):
    return 3 * number

@compiled
def outer(number):
    return inner(number) + 1
"""
HITS = "print(sum(sum(each.stats.cache_hits.values()) for each in (calls.inner, calls.outer)))"


@pytest.mark.slow
def test_code_with_and_without_wrappers_is_kept(tmp_path: Path) -> None:
    folder = copy_kernels(tmp_path)
    (folder / "calls.py").write_text(CALLS)
    for names, results in (
        (["outer"], ["16.0", "0"]),
        (["inner"], ["15.0", "0"]),
        (["inner", "outer"], ["15.0", "16.0", "2"]),
        (["outer", "inner"], ["16.0", "15.0", "2"]),
    ):
        lines = ["import calls", "import numpy as np", *(f"print(calls.{name}(np.float32(5)))" for name in names), HITS]
        assert ran(folder, program="\n".join(lines)) == results

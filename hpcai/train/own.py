"""Kernels that a site brings along: a file of Python, whose functions compute in the place of ours.

It has `convolve`, `multiply` or both, as kernels/operators/on_cpu.py and on_gpu.py have them. What it lacks is ours.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha256
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import MappingProxyType

from hpcai.errors import InputError
from hpcai.inputfile import Case
from hpcai.kernels.operators import products

NAME = "hpcai_own_kernels"  # of the module; a file of the same name beside it is another one
Functions = Mapping[str, Callable[..., None]]


@lru_cache
def functions(path: str) -> tuple[Functions, str]:
    """The functions of a file, by their names, and the SHA-256 of its text. InputError if it is none to compute with.

    It is executed once in a process.
    """
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"KERNELS file:{path}: {error.strerror or error}; allowed: a file of Python") from None
    spec = spec_from_file_location(NAME, path)
    if spec is None or spec.loader is None:
        raise InputError(f"KERNELS file:{path}: no file of Python; allowed: one whose name ends in .py")
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a site's code may raise
        raise InputError(f"KERNELS file:{path} cannot be executed: {type(error).__name__}: {error}") from None
    found = {name: getattr(module, name) for name in products.REPLACEABLE if callable(getattr(module, name, None))}
    if not found:
        raise InputError(f"KERNELS file:{path} computes nothing; allowed: functions {', '.join(products.REPLACEABLE)}")
    return MappingProxyType(found), sha256(text).hexdigest()


def refusal(case: Case) -> str:
    """Why the kernels that a case names cannot be used here; empty if they can, or if it names none."""
    try:
        if case.own_kernels:
            functions(case.own_kernels)
    except InputError as error:
        return str(error)
    return ""


@contextmanager
def in_use(case: Case) -> Iterator[None]:
    """While the block runs, the kernels that a case names compute in the place of ours."""
    with products.replaced(functions(case.own_kernels)[0] if case.own_kernels else {}):
        yield

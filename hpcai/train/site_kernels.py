"""Site kernels (KERNELS `file:`): a Python file whose functions replace custom kernels.

It defines `convolve`, `multiply` or both, with the signatures of kernels/operators/on_cpu.py and on_gpu.py; a missing
function stays custom.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType, ModuleType

from hpcai.errors import InputError
from hpcai.inputfile import Case
from hpcai.kernels.operators import products

NAME = "hpcai_own_kernels"  # module name, different from that of any file
Functions = Mapping[str, Callable[..., None]]


@lru_cache
def functions(path: str) -> tuple[Functions, str]:
    """The functions of a file by name, and the SHA-256 of its text. InputError if it defines none.

    The file is executed once in a process.
    """
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"KERNELS file:{path}: {error.strerror or error}; allowed: a file of Python") from None
    if not path.endswith(".py"):
        raise InputError(f"KERNELS file:{path}: no file of Python; allowed: one whose name ends in .py")
    module = ModuleType(NAME)
    module.__file__ = path
    try:
        exec(compile(text, path, "exec"), module.__dict__)  # the text of the digest, not a compiled file beside it
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a site's code may raise
        raise InputError(f"KERNELS file:{path} cannot be executed: {type(error).__name__}: {error}") from None
    found = {name: getattr(module, name) for name in products.REPLACEABLE if callable(getattr(module, name, None))}
    if not found:
        raise InputError(f"KERNELS file:{path} computes nothing; allowed: functions {', '.join(products.REPLACEABLE)}")
    return MappingProxyType(found), sha256(text).hexdigest()


def refusal(case: Case) -> str:
    """Why the site kernels of a case cannot be used here; empty if they can, or if the case names none."""
    try:
        if case.kernels_file:
            functions(case.kernels_file)
    except InputError as error:
        return str(error)
    return ""


@contextmanager
def installed_for(case: Case) -> Iterator[None]:
    """While the block runs, the site kernels of a case replace custom kernels."""
    with products.replaced(functions(case.kernels_file)[0] if case.kernels_file else {}):
        yield

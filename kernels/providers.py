"""Providers: implementations of a kernel on a device, their discovery, and their interface.

A provider of a kernel is a module in the kernel's folder that declares two literals and has a function `prepare`:

    PROVIDER = "custom"         # its name in reports
    DEVICES = ("cpu",)          # types of the devices it computes on: cpu, cuda

A name has one module a device. Declarations are read without importing: a module may need a library that is not there.
"""

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from .spec import Spec

CUSTOM, VENDOR = "custom", "vendor"  # this project's kernels, and torch's libraries

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Unavailable(Exception):
    """A provider cannot compute here; the message says why: no such backend, library, device or compiler."""


Call = Callable[[], Any]


class Prepared(NamedTuple):
    """A product prepared for computation and timing, by one variant of a provider.

    Operands are on the device, the result's memory is allocated and, where the library allows, poisoned: filled with
    values that no product has. `call` computes it once and may return before the device is done; `result` returns the
    last result on the host, in the reference's layout; `poison_result` poisons it again. `variant` is the name of the
    variant if there are several. The algorithm may exceed the error of direct sums by the factor `slack`.

    What is timed needs two more: `bind` returns the call that computes the product of other operands into the same
    result, and `view` the result's memory on the device with the reference's dimensions, a NumPy array or a tensor.
    """

    call: Call
    result: Callable[[], Any]
    poison_result: Callable[[], Any]
    variant: str = ""
    slack: float = 1.0
    bind: Callable[[Any], Call] | None = None
    view: Callable[[], Any] | None = None


class Provider(Protocol[T_contra]):
    """Interface of a provider's module, for shapes of one kernel."""

    def prepare(self, shape: T_contra, direction: str, data: Any, device: str, threads: int) -> list[Prepared]:
        """All variants that compute a direction of that shape; `device` as torch names it.

        `data` are the operands on the host, in the reference's layout. Unavailable without any variant.
        """


def providers(spec: Spec[Any]) -> tuple[str, ...]:
    """Names of a kernel's providers on any device, in the order of reports."""
    return in_order(name for name, _ in declared(spec.name))


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Distinct names of providers in the order of reports: custom, vendor, then others by name."""
    return tuple(sorted(set(names), key=lambda name: (name != CUSTOM, name != VENDOR, name)))


def backend(spec: Spec[T], provider: str, device: str) -> Provider[T]:
    """The module of a provider of a kernel on `cpu` or `cuda`.

    Unavailable if there is none or it cannot be imported.
    """
    return cast(Provider[T], module_of(spec.name, provider, device))


def module_of(kernel: str, provider: str, device: str) -> Any:
    """As `backend`, by the kernel's name; for kernels with further functions."""
    file = declared(kernel).get((provider, device))
    if file is None:
        raise Unavailable(f"there is no {kernel} by {provider} on a {device}")
    try:
        return import_module(f"{__package__}.{kernel}.{file}")
    except (ImportError, OSError) as error:  # OSError: a library without its dependencies
        raise Unavailable(f"{kernel}/{file}.py: {error}") from None


def declared(kernel: str) -> dict[tuple[str, str], str]:
    """Names of modules by provider and device."""
    package = import_module(f"{__package__}.{kernel}")
    return _found(package.__name__, tuple(package.__path__))


@cache
def _found(package: str, folders: tuple[str, ...]) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for module in iter_modules(folders):
        literals = dict(_literals(f"{package}.{module.name}"))
        for device in literals.get("DEVICES", ()) if "PROVIDER" in literals else ():
            named = literals["PROVIDER"], device
            assert named not in found, f"{named} is both {found[named]}.py and {module.name}.py of {package}"
            found[named] = module.name
    return found


def _literals(module: str) -> Iterator[tuple[str, Any]]:
    """The two declarations of a module, if it has them."""
    spec = find_spec(module)
    source = cast(Any, spec.loader).get_source(module) if spec else ""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name in ("PROVIDER", "DEVICES"):
                yield name, ast.literal_eval(node.value)

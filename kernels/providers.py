"""Providers: who computes a kernel on a device, how they are found, and the contract that each keeps.

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

CUSTOM, VENDOR = "custom", "vendor"  # this project's kernels, and torch's libraries: those that reports compare

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Unavailable(Exception):
    """A provider that cannot compute here, and why: no such backend, library, device or compiler."""


class Prepared(NamedTuple):
    """A product made ready to be computed and timed, in one of the ways that a provider has.

    The operands lie where they are computed on, the result's memory is taken and, where the library allows, poisoned:
    filled with what no product has. `call` computes it once and may return before the device has; `result` gives the
    host what the last call computed, as the reference has it; `spoil` poisons it again. `variant` names the way where
    there are several. The algorithm may exceed the error of direct sums `slack` times.
    """

    call: Callable[[], Any]
    result: Callable[[], Any]
    spoil: Callable[[], Any]
    variant: str = ""
    slack: float = 1.0


class Provider(Protocol[T_contra]):
    """The module of a provider, for shapes of one kernel."""

    def prepare(self, shape: T_contra, direction: str, data: Any, device: str, threads: int) -> list[Prepared]:
        """Each way that it has to compute a direction of that shape; `device` as torch names it.

        `data` are the operands on the host, as the kernel's reference takes them. Unavailable where it has no way.
        """


def providers(spec: Spec[Any]) -> tuple[str, ...]:
    """Names of a kernel's providers on any device, in the order of reports."""
    return in_order(name for name, _ in declared(spec.name))


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Different names of providers in the order of reports: custom, vendor, then others by name."""
    return tuple(sorted(set(names), key=lambda name: (name != CUSTOM, name != VENDOR, name)))


def backend(spec: Spec[T], provider: str, device: str) -> Provider[T]:
    """The module by which a provider computes a kernel on `cpu` or `cuda`; Unavailable where it cannot be had."""
    return cast(Provider[T], module_of(spec.name, provider, device))


def module_of(kernel: str, provider: str, device: str) -> Any:
    """The same by the kernel's name, of kernels that have functions of their own as well."""
    file = declared(kernel).get((provider, device))
    if file is None:
        raise Unavailable(f"there is no {kernel} by {provider} on a {device}")
    try:
        return import_module(f"{__package__}.{kernel}.{file}")
    except (ImportError, OSError) as error:  # OSError: a library that lacks one of its own
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
    """The two declarations of a module, as far as it has them."""
    spec = find_spec(module)
    source = cast(Any, spec.loader).get_source(module) if spec else ""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name in ("PROVIDER", "DEVICES"):
                yield name, ast.literal_eval(node.value)

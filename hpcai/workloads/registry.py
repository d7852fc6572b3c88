"""Registry of workloads: one line for each; a workload is a folder."""

import os
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING

from hpcai.errors import InputError

if TYPE_CHECKING:  # imported late: the declarations import the module of KEYs, which imports this one
    from hpcai.workloads.workload import Quality, Workload

PACKAGES = (
    "hpcai.workloads.kernels",
    "hpcai.workloads.comm",
    "hpcai.workloads.health",
    "hpcai.workloads.ensemble",
    "hpcai.workloads.weather",
    "hpcai.workloads.language",
    "hpcai.workloads.nas",
)
FURTHER = "HPCAI_WORKLOADS"  # environment variable with further packages, separated by commas


@cache
def _packages() -> dict[str, ModuleType]:
    """The package of each workload by the name of its section."""
    further = filter(None, os.environ.get(FURTHER, "").split(","))
    modules = [*map(import_module, PACKAGES), *map(_imported, further)]
    found = {module.WORKLOAD.name: module for module in modules}
    digits = [module.WORKLOAD.digit for module in modules if module.WORKLOAD.digit]
    if len(found) < len(modules) or len({*digits}) < len(digits):
        raise InputError(f"{FURTHER}: two workloads have the same section or digit of T/V; allowed: different ones")
    return found


def _imported(package: str) -> ModuleType:
    try:
        return import_module(package)
    except ImportError as error:
        raise InputError(f"{FURTHER}: {package} cannot be imported: {error}; allowed: packages on PYTHONPATH") from None


def workloads() -> "tuple[Workload, ...]":
    """All workloads, in the order of their sections in the documents."""
    return tuple(module.WORKLOAD for module in _packages().values())


def workload(section: str) -> "Workload":
    """The workload of a section."""
    found: Workload = _packages()[section].WORKLOAD
    return found


def quality_of(section: str) -> "Quality":
    """The quality of a workload that has rows."""
    found = workload(section).quality
    assert found is not None, "a workload with rows has a quality"
    return found


def part(section: str, name: str) -> ModuleType:
    """A module of a workload's folder: record, checks, claims, lines, plan or measure."""
    return import_module(f"{_packages()[section].__name__}.{name}")


def optional_part(section: str, name: str) -> ModuleType | None:
    """A module that only some workloads' folders have, such as files."""
    return part(section, name) if find_spec(f"{_packages()[section].__name__}.{name}") else None

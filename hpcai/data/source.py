"""How the tests of a workload open their data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcai.inputfile import Case
from hpcai.workloads.registry import part

if TYPE_CHECKING:
    from mpi4py import MPI

Settings = Mapping[str, Any]


def _no_survey(settings: Settings, comm: "MPI.Comm") -> None:
    """Nothing has to be read before."""


def _nothing_loaded(spec: str) -> None:
    """Nothing is loaded late."""


@dataclass(frozen=True)
class DataSource:
    """The data of a workload that trains; its folder declares them as data.SOURCE.

    open: the data of a case's settings, or a copy of their files. plan: the same as far as a plan needs them. survey:
    reads once, by all ranks together, what has to be known of files before they are opened. load: loads the libraries
    that make the data a value of DATASET names. All but `load` return or raise the same on every rank.
    """

    open: Callable[[Settings, Path | None], Any]
    plan: Callable[[Settings], Any]
    survey: "Callable[[Settings, MPI.Comm], None]" = _no_survey
    load: Callable[[str], None] = _nothing_loaded


def source_of(case: Case) -> DataSource:
    """The source of the data of a case that trains."""
    found: DataSource = part(case.workload, "data").SOURCE
    return found

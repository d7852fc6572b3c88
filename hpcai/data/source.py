"""Data source of a workload that trains: how its tests open their dataset."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcai.frozen.samples import Source
from hpcai.inputfile import Case
from hpcai.workloads.registry import part

if TYPE_CHECKING:
    from mpi4py import MPI

Settings = Mapping[str, Any]


def _no_survey(settings: Settings, comm: "MPI.Comm") -> None:
    """Default survey: nothing to read in advance."""


def _nothing_loaded(spec: str) -> None:
    """Default: no libraries to load."""


def _not_known(settings: Settings, dataset: Any) -> None:
    """Default: no second implementation reads the data."""


@dataclass(frozen=True)
class DataSource:
    """Data source of a workload that trains; its folder declares it as data.SOURCE.

    open: the dataset of a case's settings, or a copy of its files. plan: the same as far as planning needs it. survey:
    reads once, by all ranks together, what must be known of files before they are opened. load: loads the libraries
    that generate the data of a DATASET value. again: reads samples anew by second implementations, None where there are
    none. All but `load` return or raise the same on every rank.
    """

    open: Callable[[Settings, Path | None], Any]
    plan: Callable[[Settings], Any]
    survey: "Callable[[Settings, MPI.Comm], None]" = _no_survey
    load: Callable[[str], None] = _nothing_loaded
    again: Callable[[Settings, Any], Source | None] = _not_known


def source_of(case: Case) -> DataSource:
    """The data source of a case that trains."""
    found: DataSource = part(case.workload, "data").SOURCE
    return found

"""Checks of cases before they run, without MPI: dataset, network, device, libraries."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from hpcai import mllog, networks
from hpcai.data.order import Shard
from hpcai.data.source import source_of
from hpcai.errors import HpcaiError, InputError
from hpcai.formulas.precision import PRECISIONS
from hpcai.inputfile import Case
from hpcai.inputfile.cases import METER, path_of
from hpcai.inputfile.key import Setting
from hpcai.machine import compilers
from hpcai.networks.graph import Graph
from hpcai.opcount.stages import stages_of
from hpcai.preflight.parallel_modes import parallel_refusal
from hpcai.preflight.preconditions import preconditions
from hpcai.results.kernel_choice import AUTO
from hpcai.train import precision, site_kernels

if TYPE_CHECKING:
    from mpi4py import MPI

LEAST_POISSON = 64  # samples a rank: fewer than 2 draws then have a chance of 1e-26


def check(cases: Sequence[Case], device: torch.device) -> None:
    """Raise InputError with all reasons why a case cannot run: damaged or too few data, too small feature maps."""
    wrong: dict[str, int] = {}
    for case in cases:
        try:
            _check(case, device)
        except HpcaiError as error:
            wrong.setdefault(str(error), case.index)
    if wrong:
        raise InputError("; ".join(f"test {index} cannot be run: {reason}" for reason, index in wrong.items()))


def _check(case: Case, device: torch.device) -> None:
    dataset = opened(case) if case.trains else None
    preconditions(case.workload).check(case, dataset)
    if dataset is not None:
        _check_training(case, dataset, device)
    elif reason := _refused_here(case, device):
        raise InputError(reason)


def _check_training(case: Case, dataset: Any, device: torch.device) -> None:
    if reason := _refused_here(case, device):  # among others a split without stages to cut
        raise InputError(reason)
    graph = network(case, dataset)
    stages_of(graph, case.cut)
    Shard(len(dataset.train), 0, case.split.replicas, case.replica_batch)
    smallest = min(height * width for _, height, width in (s for s in graph.shapes.values() if len(s) == 3))
    least = LEAST_POISSON * case.split.replicas
    if case.groups > 1 and case.settings.get("SAMPLER") == "poisson" and len(dataset.train) < least:
        raise InputError(f"{len(dataset.train)} samples for the poisson sampler, which may draw none; at least {least}")
    if case.cut.samples * smallest < 2:
        raise InputError(f"BATCH 1 with maps of one pixel ({case.network}): batch norm needs two values a channel")


def check_rank(cases: Sequence[Case], device: torch.device) -> None:
    """Raise InputError if this rank cannot execute a case: other nodes may have other compilers or GPUs."""
    for case in cases:
        if reason := _refused_here(case, device):
            raise InputError(f"test {case.index} cannot be run: {reason}")


def _refused_here(case: Case, device: torch.device) -> str:
    """Why the compilers, the device or the libraries of this rank cannot do what a case asks for; empty if they can."""
    return _refused_training(case, device) if case.trains else preconditions(case.workload).refusal(case, device)


def _refused_training(case: Case, device: torch.device) -> str:
    how = str(case.settings.get("COMPILE", "off"))
    return (
        compilers.refusal(how, case.degree, device.type == "cuda")
        or _refused_choice(case.kernels, how, case.precision)
        or precision.refusal(case.precision, device)
        or site_kernels.refusal(case)
        or (mllog.refusal() if case.mllog == "on" else "")
        or _refused_meter(case.energy)
        or parallel_refusal(case)
        or preconditions(case.workload).refusal(case, device)
    )


def _refused_meter(energy: Setting) -> str:
    """A meter's file may be made while the test runs; what is there already must be a file."""
    path = path_of(energy, METER) if str(energy).startswith(METER) else ""
    if not os.path.exists(path) or os.path.isfile(path):
        return ""
    return f"ENERGY {energy}: no regular file; allowed: the file of a meter"


def _refused_choice(kernels: str, how: str, precision: str) -> str:
    if kernels == AUTO and PRECISIONS[precision].quantised:
        return (
            "KERNELS auto with PRECISION int8: forward products are always custom; allowed: vendor, custom, file:PATH"
        )
    if kernels == AUTO and how == "torch":
        return "KERNELS auto with COMPILE torch: layers are timed one by one; allowed: COMPILE off, or KERNELS custom"
    return ""


def opened(case: Case) -> Any:
    """The data of a case as far as they are needed to plan it: published fields are not read."""
    return source_of(case).plan(case.data_settings)


def survey(cases: Sequence[Case], comm: "MPI.Comm") -> None:
    """Let the ranks read files of which nothing is known yet, once, together. Collective."""
    for case in cases:
        if case.trains:
            source_of(case).survey(case.data_settings, comm)


def network(case: Case, dataset: Any) -> Graph:
    """The layer graph that a case trains on a dataset."""
    return networks.for_data(case, dataset.shape, dataset.number_of_classes)

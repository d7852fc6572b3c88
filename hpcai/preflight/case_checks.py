"""A case before it runs, without MPI: its network, and whether it can be run."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from hpcai import networks
from hpcai.data import catalog
from hpcai.data.image_dataset import Dataset
from hpcai.data.order import Shard
from hpcai.data.weather.layout import UNUSED
from hpcai.data.weather.weather_dataset import Weather
from hpcai.errors import HpcaiError, InputError
from hpcai.formulas.precision import PRECISIONS
from hpcai.inputfile import Case
from hpcai.machine import compilers
from hpcai.models.detection import regions
from hpcai.networks.graph import Graph
from hpcai.opcount import products
from hpcai.results.kernel_choice import AUTO
from hpcai.train import own, precision

if TYPE_CHECKING:
    from mpi4py import MPI

ENDS = ("TRIALS", "ROUNDS", "DURATION", "WINDOW")  # of a search; a recorded one ends with its trials as well
LEAST_POISSON = 64  # samples a rank: fewer than 2 draws then have a chance of 1e-26


def check(cases: Sequence[Case], device: torch.device) -> None:
    """Raise InputError, with every reason, if a case cannot be run: data damaged or too few, maps too small."""
    wrong: dict[str, int] = {}
    for case in cases:
        try:
            _check(case, device)
        except HpcaiError as error:
            wrong.setdefault(str(error), case.index)
    if wrong:
        raise InputError("; ".join(f"test {index} cannot be run: {reason}" for reason, index in wrong.items()))


def _check(case: Case, device: torch.device) -> None:
    if case.workload == "kernels":
        products.asked(case.settings)  # builds the networks
    if not case.trains:
        return
    dataset = opened(case)
    if isinstance(dataset, Weather) and not _has_boxes(case, dataset):
        raise InputError(f"no validation frame of {dataset.source} has boxes; allowed: frames to be judged by")
    graph = network(case, dataset)
    Shard(len(dataset.train), 0, case["DEGREE"], case["BATCH"])
    if reason := _refused_here(case, device):
        raise InputError(reason)
    if case.workload == "nas" and not _ends(case):
        raise InputError(f"a search that never ends; allowed: one of {', '.join(ENDS)} above 0")
    smallest = min(height * width for _, height, width in (s for s in graph.shapes.values() if len(s) == 3))
    least = LEAST_POISSON * case["DEGREE"]
    if case["GROUPS"] > 1 and case.settings.get("SAMPLER") == "poisson" and len(dataset.train) < least:
        raise InputError(f"{len(dataset.train)} samples for the poisson sampler, which may draw none; at least {least}")
    if case["BATCH"] * smallest < 2:
        raise InputError(f"BATCH 1 with maps of one pixel ({case['NETWORK']}): batch norm needs two values a channel")


def _ends(case: Case) -> bool:
    return any(case[limit] for limit in ENDS) or bool(case.recording)


def check_rank(cases: Sequence[Case], device: torch.device) -> None:
    """Raise InputError if this rank cannot execute a case: other nodes may have other compilers, or other GPUs."""
    for case in cases:
        if case.trains and (reason := _refused_here(case, device)):
            raise InputError(f"test {case.index} cannot be run: {reason}")


def _refused_here(case: Case, device: torch.device) -> str:
    """Why the compilers, the device or the libraries of this rank cannot do what a case asks for; empty if they can."""
    how = str(case.settings.get("COMPILE", "off"))
    return (
        compilers.refusal(how, case["DEGREE"], device.type == "cuda")
        or _refused_choice(case["KERNELS"], how, case["PRECISION"])
        or precision.refusal(case["PRECISION"], device)
        or own.refusal(case)
        or (regions.refusal(device) if case.workload == "weather" else "")
    )


def _refused_choice(kernels: str, how: str, precision: str) -> str:
    if kernels == AUTO and PRECISIONS[precision].quantised:
        return "KERNELS auto with PRECISION int8: forward products are ours anyway; allowed: vendor, custom, file:PATH"
    if kernels == AUTO and how == "torch":
        return "KERNELS auto with COMPILE torch: layers are timed one by one; allowed: COMPILE off, or KERNELS custom"
    return ""


def opened(case: Case) -> Dataset | Weather:
    """The data of a case as far as they are needed to plan it: published fields are not read."""
    if case.workload == "weather":
        return catalog.open_weather_for(case.data_settings, surveyed=False)
    return catalog.open_for(case.data_settings)


def survey(cases: Sequence[Case], comm: "MPI.Comm") -> None:
    """Let the ranks read published fields of which nothing is known yet, once, together. Collective."""
    for case in cases:
        if case.workload == "weather" and catalog.is_weather(case["DATASET"]):
            catalog.open_weather_for(case.data_settings, comm=comm)


def _has_boxes(case: Case, dataset: Weather) -> bool:
    """Whether there is something to find; generated frames always have boxes, and theirs are not known before."""
    if not catalog.is_weather(case["DATASET"]):
        return True
    return bool((dataset.validation.boxes(np.arange(len(dataset.validation)))[:, :, 4] != UNUSED).any())


def network(case: Case, dataset: Dataset | Weather) -> Graph:
    """The layer graph that a case trains on a dataset."""
    classes = len(dataset.classes) if isinstance(dataset, Weather) else dataset.classes
    return networks.for_data(case.settings, dataset.shape, classes)

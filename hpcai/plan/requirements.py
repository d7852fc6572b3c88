"""What the cases of each workload need of a rank, without MPI: memory by purpose, seconds by phase, steps."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil

import torch

from hpcai import estimate
from hpcai.data.image_dataset import Dataset
from hpcai.data.order import Shard
from hpcai.data.weather.weather_dataset import Weather
from hpcai.estimate import Facts, Rank
from hpcai.estimate.collectives import comm_memory, comm_seconds
from hpcai.estimate.search import raising_bytes
from hpcai.formulas.precision import PRECISIONS
from hpcai.formulas.trial_schedule import planned_in_all
from hpcai.inputfile import Case
from hpcai.kernels.check import converts
from hpcai.plan.step_rate import probe, seconds
from hpcai.preflight.case_checks import network, opened

Bytes = dict[str, int]
Seconds = dict[str, float]


@dataclass(frozen=True)
class Needs:
    """How a workload's needs are found, for a rank like `Rank`; `crowd` ranks share a processor.

    `cure`: what takes less memory. `steps` of a model, where there are any.
    """

    memory: Callable[[Case, torch.device, Rank], Bytes]
    seconds: Callable[[Case, torch.device, Rank, float], Seconds]
    cure: Callable[[Case], str]
    steps: Callable[[Case], int | None] = lambda case: None


def facts(case: Case, dataset: Dataset | Weather, device: torch.device) -> Facts:
    """What the memory of a training depends on beside its settings and network."""
    copies = 1 if case["STAGE"] == "none" else 2  # of a staged copy's data and of the files' own
    return Facts(
        data_bytes=copies * (dataset.train.nbytes + dataset.validation.nbytes),
        samples=len(dataset.train),
        picture_bytes=_stored_bytes(dataset),
        converted=converts(device.type, PRECISIONS[case["PRECISION"]].arithmetic),
        accelerated=device.type == "cuda",
    )


def _stored_bytes(dataset: Dataset | Weather) -> int:
    """Bytes of a sample as it is read."""
    channels, height, width = dataset.shape
    if isinstance(dataset, Weather):
        return dataset.train.itemsize * channels * height * width
    return channels * (dataset.crops.side if dataset.crops else height) ** 2


def _training_memory(case: Case, device: torch.device, rank: Rank) -> Bytes:
    dataset = opened(case)
    return estimate.memory(network(case, dataset), case.settings, facts(case, dataset, device))


def _training_seconds(case: Case, device: torch.device, rank: Rank, crowd: float) -> Seconds:
    dataset = opened(case)
    return seconds(case, dataset, network(case, dataset), _shard(case), device, crowd)


def _search_memory(case: Case, device: torch.device, rank: Rank) -> Bytes:
    """For the network that the search begins with: others are tried as far as they fit."""
    graph = network(case, opened(case))
    raising = 0 if device.type == "cuda" else raising_bytes(graph)
    return _training_memory(case, device, rank) | {"raising": raising}


def _search_seconds(case: Case, device: torch.device, rank: Rank, crowd: float) -> Seconds:
    """As long as it may take; where trials or rounds end it earlier, as long as they take with the first network."""
    dataset = opened(case)
    rates = probe(network(case, dataset), case["BATCH"], case["PRECISION"], device)
    epoch = rates.training * len(dataset.train) + rates.validation * len(dataset.validation)
    seconds = crowd * (epoch / case["DEGREE"] + rates.update * _shard(case).steps)
    of_trials = ceil(case["TRIALS"] / case["GROUPS"])
    rounds_ = [limit for limit in (case["ROUNDS"], of_trials) if limit]
    limits = [planned_in_all(min(rounds_), case["EPOCHS"]) * seconds] if rounds_ else []
    return {"search": min([*limits, *filter(None, [case["DURATION"]])], default=0.0)}


def _shard(case: Case) -> Shard:
    """The first rank's share of the samples."""
    return Shard(len(opened(case).train), 0, case["DEGREE"], case["BATCH"])


def _crowded(taken: Mapping[str, float], crowd: float) -> Seconds:
    return {phase: value * crowd for phase, value in taken.items()}


_TRAINING = Needs(
    _training_memory,
    _training_seconds,
    lambda case: f"a smaller BATCH than {case['BATCH']} needs less",
    lambda case: _shard(case).steps * int(case["EPOCHS"]),
)
NEEDS = {
    "ensemble": _TRAINING,
    "weather": _TRAINING,
    "nas": Needs(
        _search_memory,
        _search_seconds,
        lambda case: f"a smaller BATCH than {case['BATCH']} needs less",
    ),
    "kernels": Needs(
        lambda case, device, rank: estimate.kernels_memory(case.settings, rank),
        lambda case, device, rank, crowd: _crowded(estimate.kernels_seconds(case.settings, rank), crowd),
        lambda case: f"other SHAPES, or a smaller BATCH than {case['BATCH']}, need less",
    ),
    "comm": Needs(
        lambda case, device, rank: comm_memory(case.settings, rank),
        lambda case, device, rank, crowd: _crowded(comm_seconds(case.settings), crowd),
        lambda case: "smaller SIZES need less",
    ),
}

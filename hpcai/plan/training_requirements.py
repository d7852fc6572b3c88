"""What tests that train need of a rank, without MPI: memory by purpose, seconds by phase, steps."""

import torch

from hpcai import estimate
from hpcai.data.image_dataset import Dataset
from hpcai.data.order import Shard
from hpcai.data.weather.weather_dataset import Weather
from hpcai.estimate import Facts, Rank
from hpcai.inputfile import Case
from hpcai.kernels.check import converts
from hpcai.plan.requirements import Bytes, Requirements, Seconds
from hpcai.plan.step_rate import seconds
from hpcai.preflight.case_checks import network, opened
from hpcai.train.precision import PRECISIONS

PURPOSES = {
    "data": "pictures and labels kept in memory",
    "samples": "which were delivered and drawn, and how long steps took",
    "weights": "weights and statistics",
    "optimiser": "momentum",
    "audit": "weights and momentum before and after an audited step",
    "snapshot": "what warm-up and profile go back to",
    "buckets": "gradients of a group, and its connections",
    "batches": "pictures loaded ahead, and normalised",
    "step": "activations, gradients and work space of a training step",
    "judgement": "the audit of a step in float64, when no step runs",
    "residuals": "the checks of the provider and of sums, before the training needs memory",
    "profile": "the profiler's account of a few steps",
    "other": "small objects",
}


def facts(case: Case, dataset: Dataset | Weather, device: torch.device) -> Facts:
    """What the memory of a training depends on beside its settings and network."""
    copies = 1 if case["STAGE"] == "none" else 2  # of a staged copy's data and of the files' own
    return Facts(
        data_bytes=copies * (dataset.train.nbytes + dataset.validation.nbytes),
        samples=len(dataset.train),
        picture_bytes=dataset.sample_bytes,
        converted=converts(device.type, PRECISIONS[case["PRECISION"]].arithmetic),
        accelerated=device.type == "cuda",
    )


def training_memory(case: Case, device: torch.device, rank: Rank) -> Bytes:
    """Bytes of a rank by purpose."""
    dataset = opened(case)
    return estimate.memory(network(case, dataset), case.settings, facts(case, dataset, device))


def training_seconds(case: Case, device: torch.device, rank: Rank, crowd: float) -> Seconds:
    """Seconds by phase."""
    dataset = opened(case)
    return seconds(case, dataset, network(case, dataset), first_shard(case), device, crowd)


def first_shard(case: Case) -> Shard:
    """The first rank's share of the samples."""
    return Shard(len(opened(case).train), 0, case["DEGREE"], case["BATCH"])


def smaller_batch(case: Case) -> str:
    """What takes less memory."""
    return f"a smaller BATCH than {case['BATCH']} needs less"


TRAINING = Requirements(
    training_memory,
    training_seconds,
    smaller_batch,
    lambda case: first_shard(case).steps * int(case["EPOCHS"]),
    PURPOSES,
)

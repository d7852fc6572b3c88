"""Requirements of tests that train on a rank: memory by purpose, seconds by phase, steps; without MPI."""

import torch

from hpcai import estimate
from hpcai.data.image_dataset import Dataset
from hpcai.data.order import Shard
from hpcai.data.text.text_dataset import Text
from hpcai.data.weather.weather_dataset import Weather
from hpcai.estimate import Facts, Rank
from hpcai.estimate.communication import exposed
from hpcai.inputfile import Case
from hpcai.inputfile.split import DATA
from hpcai.kernels.check import converts
from hpcai.plan.requirements import Bytes, Requirements, Seconds
from hpcai.plan.step_rate import seconds
from hpcai.preflight.case_checks import network, opened
from hpcai.train.precision import PRECISIONS
from hpcai.workloads.registry import workload

PURPOSES = {
    "data": "images and labels, or bytes, kept in memory",
    "samples": "records of delivered and drawn samples, and of step times",
    "weights": "weights and statistics",
    "optimiser": "state of the optimiser",
    "replay copies": "weights, statistics and optimiser state before and after an audited step, of up to 4",
    "fingerprints": "a number of each gradient in each step of an epoch",
    "checkpoint": "copy of weights, statistics and optimiser state, while it is written",
    "snapshot": "state restored after warm-up and profile",
    "buckets": "gradient buckets of a group, and its connections",
    "exchange": "channels that ranks with shards of a model exchange, and connections of its shards and stages",
    "batches": "images loaded ahead, and normalised",
    "step": "activations, gradients and work space of a training step",
    "replay": "replay of a step in float64, when no step runs",
    "residuals": "checks of the provider and of the all-reduce, before the training",
    "profile": "records of the profiler",
    "restoring": "copy of the optimiser's state while the snapshot is restored, without the profiler's records",
    "other": "small objects",
}


def facts(case: Case, dataset: Dataset | Weather | Text, device: torch.device) -> Facts:
    """Properties of a training, besides its settings and network, on which its memory depends."""
    copies = 1 if case.stage == "none" else 2  # indexes of a staged copy and of the files themselves
    return Facts(
        data_bytes=copies * (dataset.train.nbytes + dataset.validation.nbytes),
        samples=len(dataset.train),
        image_bytes=dataset.sample_bytes,
        converted=converts(device.type, PRECISIONS[case.precision].arithmetic),
        accelerated=device.type == "cuda",
        checkpoints=case.checkpoint > 0 and workload(case.workload).ensembles,
    )


def training_memory(case: Case, device: torch.device, rank: Rank) -> Bytes:
    """Bytes of a rank by purpose."""
    dataset = opened(case)
    return estimate.memory(network(case, dataset), case.settings, facts(case, dataset, device))


def training_seconds(case: Case, device: torch.device, rank: Rank, crowd: float) -> Seconds:
    """Seconds by phase; those of a rank that waits for sums of gradients come on top of training."""
    dataset = opened(case)
    graph, steps = network(case, dataset), first_shard(case).steps * case.epochs
    found = seconds(case, dataset, graph, first_shard(case), device, crowd)
    waits = exposed(graph, case.settings, found["training"] / steps, rank.ranks, rank.link, rank.accelerated)
    return {**found, "communication": steps * waits}


def first_shard(case: Case) -> Shard:
    """The first rank's share of the samples."""
    return Shard(len(opened(case).train), 0, case.split.replicas, case.replica_batch)


def needing_less(case: Case) -> str:
    """The changes that reduce memory, as text."""
    batch = f"a smaller BATCH than {case.batch} needs less"
    if case.parallel != DATA or case.degree == 1 or not workload(case.workload).divides:
        return batch
    return f"{batch}; PARALLEL tensor or pipeline divides weights and optimiser state among {case.degree} ranks"


TRAINING = Requirements(
    training_memory,
    training_seconds,
    needing_less,
    lambda case: first_shard(case).steps * case.epochs,
    PURPOSES,
)

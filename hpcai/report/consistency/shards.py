"""What all models of a case train on together, by their samplers and shards."""

from typing import Any

from hpcai.data.bootstrap import sampler
from hpcai.data.order import Shard
from hpcai.inputfile import Case

Json = dict[str, Any]


def shards_of(case: Case, raw: Json) -> list[Shard]:
    """The first rank's shard of each model, as are those of its other ranks."""
    samples, degree, batch = raw["dataset"]["training_samples"], case["DEGREE"], case["BATCH"]
    return [
        Shard(sampler(case["SAMPLER"], samples, case["SEED"], model, case["GROUPS"]).size, 0, degree, batch)
        for model in range(case["GROUPS"])
    ]


def trained(case: Case, shards: list[Shard]) -> int:
    """Samples in all epochs of all models."""
    return sum(shard.samples for shard in shards) * int(case["DEGREE"]) * int(case["EPOCHS"])

"""The samples that the models of a case train on: functions of the input and the number of samples."""

from functools import lru_cache

from hpcai.data.bootstrap import sampler
from hpcai.data.order import Shard
from hpcai.inputfile import Case
from hpcai.train.recipe import Recipe


def shards_of(case: Case, samples: int) -> tuple[Shard, ...]:
    """The shard of each model's first rank; its other ranks have equally large shards."""
    of = case.sampler, samples, case.seed, case.planned_groups, tuple(case.models)
    return _shards(*of, case.split.replicas, case.replica_batch)


@lru_cache(maxsize=4)
def _shards(
    sampling: str, samples: int, seed: int, planned: int, models: tuple[int, ...], replicas: int, batch: int
) -> tuple[Shard, ...]:
    sizes = (sampler(sampling, samples, seed, model, planned).size for model in models)
    return tuple(Shard(size, 0, replicas, batch) for size in sizes)


def trained(case: Case, shards: tuple[Shard, ...]) -> int:
    """Samples in all epochs of all models."""
    return sum(shard.samples for shard in shards) * case.split.replicas * case.epochs


def left_out(case: Case, samples: int) -> int:
    """Training samples on which some model does not train; of several models only, as they alone are evaluated."""
    if case.groups == 1:
        return 0
    samplers = (sampler(case.sampler, samples, case.seed, model, case.planned_groups) for model in case.models)
    in_all_bags = next(samplers).in_bag(0, samples)
    for each in samplers:
        if not in_all_bags.any():
            break
        in_all_bags &= each.in_bag(0, samples)
    return samples - int(in_all_bags.sum())


def evaluated(case: Case) -> list[int]:
    """The epochs after which a model is evaluated."""
    recipe = Recipe.of(case.settings)
    return [epoch for epoch in range(1, recipe.epochs + 1) if recipe.evaluates(epoch)]

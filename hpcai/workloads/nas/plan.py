"""Memory and time estimates of a search."""

from math import ceil

import torch

from hpcai.estimate import Rank
from hpcai.estimate.search import child_building_bytes
from hpcai.formulas.trial_schedule import planned_in_all
from hpcai.inputfile import Case
from hpcai.plan.requirements import Bytes, Requirements, Seconds
from hpcai.plan.step_rate import probe
from hpcai.plan.training_requirements import PURPOSES, first_shard, needing_less, training_memory
from hpcai.preflight.case_checks import network, opened
from hpcai.update_rules import rule_of


def _search_memory(case: Case, device: torch.device, rank: Rank) -> Bytes:
    """Memory for the initial network: others are tried only if they fit."""
    graph = network(case, opened(case))
    child = 0 if device.type == "cuda" else child_building_bytes(graph)
    return training_memory(case, device, rank) | {"child network": child}


def _search_seconds(case: Case, device: torch.device, rank: Rank, crowd: float) -> Seconds:
    """The search's time limit, or the time of its trials or rounds with the initial network if that is shorter."""
    dataset = opened(case)
    rates = probe(network(case, dataset), case.batch, rule_of(case.settings), case.precision, device)
    epoch = rates.training * len(dataset.train) + rates.validation * len(dataset.validation)
    seconds = crowd * (epoch / case.degree + rates.update * first_shard(case).steps)
    of_trials = ceil(case["TRIALS"] / case.groups)
    rounds_ = [limit for limit in (case["ROUNDS"], of_trials) if limit]
    limits = [planned_in_all(min(rounds_), case.epochs) * seconds] if rounds_ else []
    return {"search": min([*limits, *filter(None, [case["DURATION"]])], default=0.0)}


REQUIREMENTS = Requirements(
    _search_memory,
    _search_seconds,
    needing_less,
    purposes={**PURPOSES, "child network": "the next network of a search, built during a trial"},
)

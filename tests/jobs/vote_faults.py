"""Faults in the figures of an ensemble: votes, agreement, members, out of bag."""

from collections.abc import Callable
from dataclasses import replace
from math import comb
from typing import Any

from msgspec import structs
from planting import Fault, replaced

from hpcai.train import classifier_ensemble
from hpcai.workloads.ensemble import measure


def ensemble_counts_more_correct() -> Fault:
    """A sample more of each block than the vote classifies correctly."""

    def make(genuine: Callable[..., Any]) -> Any:
        def vote(*arguments: Any) -> Any:
            counts = genuine(*arguments)
            counts[0] += counts[0] < counts[2]
            return counts

        return vote

    return replaced(classifier_ensemble, "_vote", make)


def vote_counted_twice() -> Fault:
    """The rank that counts the votes on a block adds its own model's outputs again."""

    def make(genuine: Callable[..., Any]) -> Any:
        def total(group: Any, block: int, outputs: Any) -> Any:
            found = genuine(group, block, outputs)
            if found is not None:
                found[:, : found.shape[1] // 2] += outputs[:, : found.shape[1] // 2]
            return found

        return total

    return replaced(classifier_ensemble, "_sum_once", make)


def disagreement_doubled() -> Fault:
    """Pairs of models that disagree count twice."""

    def make(genuine: Callable[..., Any]) -> Any:
        def evaluate(module: Any, group: Any, validation: Any, *arguments: Any) -> Any:
            found = genuine(module, group, validation, *arguments)
            pairs = comb(group.groups, 2) * validation.shard.n
            return replace(found, agreeing_pairs=max(0, 2 * found.agreeing_pairs - pairs))

        return evaluate

    return replaced(classifier_ensemble, "evaluate", make)


def out_of_bag_in_the_bag() -> Fault:
    """Models are evaluated on the training samples that they trained on, and not on the others."""
    return replaced(classifier_ensemble, "in_bag", lambda genuine: lambda *arguments: ~genuine(*arguments))


def members_counted_more() -> Fault:
    """Five correct samples more of each model than in its last validation."""

    def make(genuine: Callable[..., Any]) -> Any:
        def members(quality: Any, group: Any, values: Any) -> Any:
            found = genuine(quality, group, values)
            more = {name: getattr(found, name) + 5 for name in ("min", "max", "best")}
            return structs.replace(found, sum=found.sum + 5 * group.groups, **more)

        return members

    return replaced(measure, "members_of", make)

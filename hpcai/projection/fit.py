"""Fits the model to measured trainings and tables, and projects with the fit, also to another machine."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import mean, median

from hpcai.errors import InputError
from hpcai.formulas.all_reduce_cost import Links
from hpcai.formulas.collectives import linear_model
from hpcai.projection import model
from hpcai.projection.links import fitted
from hpcai.projection.machine import TORCH, Buckets, Machine, Rank
from hpcai.projection.measured import Measured, Observation
from hpcai.projection.model import Compute, Phases, Projected, Training


@dataclass(frozen=True)
class Fit:
    """The model of one family of trainings on one machine. storage: B/s of all nodes together, if that limits."""

    training: Training
    compute: Compute
    links: Links
    phases: Phases
    buckets: Buckets = TORCH
    storage: float | None = None

    def on(self, machine: Machine) -> "Fit":
        """The same trainings on a described machine: its links, buckets and storage, and its rate where it has one.

        Evaluations are then as much faster as the training is.
        """
        compute = computing(machine.rank, self.training) if machine.rank else self.compute
        slower = compute.mean / self.compute.mean
        phases = replace(
            self.phases, validation=slower * self.phases.validation, ensemble=slower * self.phases.ensemble
        )
        storage = machine.storage.bandwidth if machine.storage else None
        return Fit(self.training, compute, machine.links, phases, machine.buckets, storage)

    def project(self, p: int, q: int) -> Projected:
        """P models on Q ranks each; InputError where the model cannot say."""
        found = model.project(self.training, self.compute, self.links, self.buckets, p, q)
        return replace(
            found,
            validation=model.validation(self.training, self.phases, q),
            ensemble=model.ensemble(self.training, self.phases, self.links, p, q),
            staging=model.staging(self.phases, self.links.nodes(p * q), self.storage),
        )


def computing(rank: Rank, training: Training) -> Compute:
    """The compute of a rank that is described by its rate."""
    seconds = training.batch * training.operations / rank.flops
    return Compute(mean=seconds, spread=rank.spread * seconds, ranks_spread=rank.ranks_spread)


def fit(measured: Measured, algorithm: str | None = None) -> Fit:
    """The fit to all trainings and tables; `algorithm`: of the all-reduce, instead of that which was measured."""
    found = measured.observations
    if not found:
        raise InputError("no training is left to fit the model to")
    largest = max(found, key=lambda each: each.ranks)
    backend = next((each.by for each in found if each.by), "")
    per_node = max(each.ranks_per_node for each in found)
    training = replace(largest.training, algorithm=algorithm or _algorithm(found))
    links = fitted((timing for _, timing in measured.timings), backend, per_node)
    return Fit(training, _compute(found), links, _phases(found))


def _algorithm(found: Sequence[Observation]) -> str:
    return next((each.training.algorithm for each in found if each.q > 1), "flat")


def _compute(found: Sequence[Observation]) -> Compute:
    """Mean seconds of a step by the bytes that a rank sends in it, by least squares; the median of the spreads."""
    line = linear_model([(round(each.sent), each.busy) for each in found])
    uneven = [each.ranks_spread for each in found if each.ranks_spread is not None]
    return Compute(
        mean=line.alpha if line else mean(each.busy for each in found),
        per_byte=line.beta if line else 0.0,
        spread=median(each.spread for each in found),
        ranks_spread=mean(uneven) if uneven else 0.0,
        data=mean(each.data for each in found),
    )


def _phases(found: Sequence[Observation]) -> Phases:
    return Phases(
        validation=mean(each.phases.validation for each in found),
        ensemble=mean(each.phases.ensemble for each in found),
        staging=max(each.phases.staging for each in found),
        node_bytes=max(each.phases.node_bytes for each in found),
    )

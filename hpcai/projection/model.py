"""The model of a training's time: pure functions of a case, a rank's compute and a machine's links.

Derived term by term in docs/PROJECTION.md. Nothing is random: equal arguments give equal times.
"""

from dataclasses import dataclass
from math import ceil

from hpcai.errors import InputError
from hpcai.formulas.all_reduce_cost import COSTS, Links, flat
from hpcai.formulas.extremes import largest_of
from hpcai.formulas.overlap import exposed
from hpcai.formulas.roofline import moved_in_all_reduce
from hpcai.projection.gradients import Profile, buckets
from hpcai.projection.machine import Buckets

FP32 = 4


@dataclass(frozen=True)
class Training:
    """What is trained, whatever the machine: of each model, `samples` an epoch in batches of `batch` a rank.

    operations: of a sample. element: bytes of a gradient on the wire. passes: validations of a model, of
    `validation_samples`. valid: Valid FLOPS / FLOPS at the measured quality; None where nothing was measured.
    """

    profile: Profile
    operations: int
    batch: int
    samples: int
    epochs: int
    element: int = FP32
    algorithm: str = "flat"
    classes: int = 0
    validation_samples: int = 0
    passes: int = 0
    valid: float | None = None

    def steps(self, q: int) -> float:
        """Full batches of a rank in an epoch; InputError if one batch of all ranks is more than an epoch."""
        each = self.samples / q / self.batch
        if each < 1:
            step = q * self.batch
            raise InputError(f"a step of {step} samples is more than an epoch of {self.samples}; use more models")
        return each


@dataclass(frozen=True)
class Compute:
    """A rank's seconds of a full step: mean + per_byte x the bytes that it sends in the step.

    spread: standard deviation from step to step; ranks_spread: of the ranks' means, as a share. data: wait for input.
    """

    mean: float
    per_byte: float = 0.0
    spread: float = 0.0
    ranks_spread: float = 0.0
    data: float = 0.0

    def slowest(self, q: int, ranks: int, sent: float) -> float:
        """Expected seconds of the slowest of q ranks in a step, where the slowest of all `ranks` ranks takes part."""
        mean = self.mean + self.per_byte * sent
        return mean * (1 + self.ranks_spread * largest_of(ranks)) + self.spread * largest_of(q)


@dataclass(frozen=True)
class Phases:
    """Seconds of what is not training: a validation and an evaluation of the ensemble by sample, staging of a node."""

    validation: float = 0.0
    ensemble: float = 0.0
    staging: float = 0.0
    node_bytes: float = 0.0


@dataclass(frozen=True)
class Projected:
    """A projection: P models on Q ranks each; seconds of a step's parts, of Time and of the phases beside it."""

    p: int
    q: int
    compute: float
    exposed: float
    data: float
    seconds: float
    flops: float
    valid_flops: float | None
    validation: float
    ensemble: float
    staging: float

    @property
    def ranks(self) -> int:
        """All ranks."""
        return self.p * self.q

    @property
    def rate(self) -> float:
        """FLOPS of a rank."""
        return self.flops / self.ranks


@dataclass(frozen=True)
class Refused:
    """A number of ranks that cannot be projected to, and why."""

    ranks: int
    reason: str

    def __str__(self) -> str:
        return f"{self.ranks} ranks: {self.reason}"


def project(of: Training, compute: Compute, links: Links, rule: Buckets, p: int, q: int) -> Projected:
    """Time and rates of the training phase of P models on Q ranks each; without the phases beside it."""
    steps = of.steps(q)
    sent = moved_in_all_reduce(of.element * of.profile.elements, q)
    step = compute.slowest(q, p * q, sent)
    waited = exposed_seconds(of, links, rule, q, step)
    seconds = of.epochs * (steps * step + ceil(steps) * (waited + compute.data))
    rate = p * of.epochs * of.samples * of.operations / seconds
    valid = None if of.valid is None else rate * of.valid
    return Projected(p, q, step, waited, compute.data, seconds, rate, valid, 0.0, 0.0, 0.0)


def exposed_seconds(of: Training, links: Links, rule: Buckets, q: int, step: float) -> float:
    """Exposed communication of a step that computes for `step` seconds."""
    if q == 1:
        return 0.0
    backward, cost = step * of.profile.backward, COSTS[of.algorithm]
    sends = buckets(of.profile, rule, backward)
    return exposed(((ready, cost(count, of.element, q, links)) for ready, count in sends), backward)


def validation(of: Training, phases: Phases, q: int) -> float:
    """Seconds of all validations: a rank takes ceil(samples / Q) of each."""
    return of.passes * ceil(of.validation_samples / q) * phases.validation


def ensemble(of: Training, phases: Phases, links: Links, p: int, q: int) -> float:
    """Seconds of the ensemble's evaluation, of P > 1 also out of bag, with the sum of the outputs over the models."""
    evaluated = ceil(of.validation_samples / q) + ceil(of.samples / q) * (p > 1)
    summed = flat(evaluated * of.classes, FP32, p, Links(1, links.between, links.between)) if links.between else 0.0
    return evaluated * phases.ensemble + summed


def staging(phases: Phases, nodes: int, bandwidth: float | None) -> float:
    """Seconds to copy the data to all nodes, from storage of so many B/s; None: each node as fast as measured."""
    shared = nodes * phases.node_bytes / bandwidth if bandwidth else 0.0
    return max(phases.staging, shared)

"""Training state: weights, optimiser, random generators and progress of one model; written to and read from a file."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, TypedDict

import torch
from torch import nn

from hpcai.train.clipping import Clipping
from hpcai.train.error_feedback import ErrorFeedback
from hpcai.train.optimisers import build_optimiser, create_state
from hpcai.train.precision import LossScaler, scaler
from hpcai.train.recipe import Recipe


@dataclass
class CurvePoint:
    """One validation and the training until then; the same on all ranks of the group.

    seconds: of training and validation until its end, of the slowest rank. loss: mean training loss of the epoch, None
    where it or an output is not finite. counted, fingerprint: samples evaluated, and which. correct: of classifiers;
    average_precision: of each class, of detectors. validation_loss: of a validation with losses, None where not finite.
    Of language models: -log2 of the probability of all `predicted` bytes; differences of sequences from the bits by
    their source, their sum and that of their squares, where it is known.
    """

    epoch: int
    seconds: float
    loss: float | None
    counted: int
    fingerprint: int
    correct: int | None = None
    average_precision: tuple[float | None, ...] | None = None
    validation_loss: float | None = None
    bits: float | None = None
    predicted: int | None = None
    differences: float | None = None
    difference_squares: float | None = None


class Snapshot(TypedDict):
    """A copy of a training state, as it is written to a file."""

    module: dict[str, torch.Tensor]
    optimiser: dict[str, object]
    scaler: dict[str, torch.Tensor]
    progress: dict[str, object]
    loss_sum: torch.Tensor
    feedback: dict[str, torch.Tensor]
    generators: dict[str, torch.Tensor]


@dataclass
class Progress:
    """Progress of a training on this rank: its position and the credited work.

    `epoch` and `step` name the next optimiser step (both from 0; `step` within the epoch): they are the position of
    the sampler and of the schedule. `loss` is the mean of the last epoch, None where it is not finite; `pending`:
    whether that epoch's validation is still to come. The rest is credited work.
    """

    epoch: int = 0
    step: int = 0
    steps: int = 0
    samples: int = 0
    operations: int = 0  # executed operations, counted by hooks, rule `model`
    training_seconds: float = 0.0
    validation_seconds: float = 0.0
    exposed_seconds: float = 0.0  # of communication
    loading: dict[str, float] = field(default_factory=dict)  # what the loader measured during training
    sent: dict[str, float] = field(default_factory=dict)  # seconds of packing gradients, and bytes sent by link
    curve: list[CurvePoint] = field(default_factory=list)
    loss: float | None = 0.0
    pending: bool = False

    @property
    def data_wait_seconds(self) -> float:
        """Seconds in which the device waited for a batch."""
        return self.loading.get("wait_seconds", 0.0)

    def load(self, before: dict[str, float], after: dict[str, float]) -> None:
        """Add the loader's measurements between two moments."""
        add_measured(self.loading, before, after)

    def send(self, before: dict[str, float], after: dict[str, float]) -> None:
        """Add the communication's measurements between two moments."""
        add_measured(self.sent, before, after)


def add_measured(total: dict[str, float], before: dict[str, float], after: dict[str, float]) -> None:
    """Add to named totals what was measured between two moments."""
    for name, value in after.items():
        total[name] = total.get(name, 0) + value - before.get(name, 0)


def nothing() -> None:
    """Default of the hooks of a training state."""


class TrainingState:
    """Weights and statistics, optimiser, loss scaler, generators and progress of one model on one rank.

    `feedback`: rounding errors of sent gradients that the next step adds; None where nothing is carried. `clipping`:
    None where gradients are taken as they are. The hooks
    `backward_begins` and `updated` are called in each step: before its backward pass, and while its gradients exist
    after the update.
    """

    feedback: ErrorFeedback | None = None
    clipping: Clipping | None = None

    def __init__(
        self,
        module: nn.Module,
        optimiser: torch.optim.Optimizer,
        device: torch.device,
        scaler: LossScaler | None = None,
    ) -> None:
        self.module = module
        self.optimiser = optimiser
        self.scaler = scaler
        self.device = device
        self.progress = Progress()
        self.loss_sum = torch.zeros((), dtype=torch.float64, device=device)  # of the steps of the current epoch
        self.backward_begins: Callable[[], None] = nothing
        self.updated: Callable[[], None] = nothing

    def snapshot(self, device: torch.device | None = None) -> Snapshot:
        """A copy of the state that later steps do not change, on a device, by default where the tensors are."""
        state: Snapshot = {
            "module": self.module.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "scaler": self.scaler.tensors() if self.scaler else {},
            "progress": asdict(self.progress),
            "loss_sum": self.loss_sum,
            "feedback": self.feedback.tensors() if self.feedback else {},
            "generators": self._generators(),
        }
        copy: Snapshot = _cloned(state, device)
        return copy

    def restore(self, snapshot: Snapshot) -> None:
        """Go back (or forward) to a snapshot, in place: replicas and buckets that refer to the weights stay valid."""
        self.module.load_state_dict(snapshot["module"])
        self.optimiser.load_state_dict(_cloned(snapshot["optimiser"]))
        for name, value in (self.scaler.tensors() if self.scaler else {}).items():
            value.copy_(snapshot["scaler"][name])
        progress = _cloned(snapshot["progress"])
        self.progress = Progress(**progress | {"curve": [CurvePoint(**point) for point in progress["curve"]]})
        self.loss_sum.copy_(snapshot["loss_sum"])
        if self.feedback:
            self.feedback.restore(snapshot["feedback"])
        torch.set_rng_state(snapshot["generators"]["cpu"])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(snapshot["generators"]["cuda"], self.device)

    def backward(self, loss: torch.Tensor) -> None:
        """Gradients of a step's loss, times the loss scale if any."""
        self.backward_begins()
        (loss if self.scaler is None else loss * self.scaler.scale).backward()

    def update(self, samples: int) -> None:
        """Optimiser step on the gradients of `samples` samples of this rank; skipped if they overflowed."""
        if self.scaler is None:
            self._clip(None)
            self.optimiser.step()
        else:
            self.scaler.check(samples)
            self._clip(self.scaler.left)
            self.scaler.step()
            self.scaler.update()
        self.updated()
        self.optimiser.zero_grad(set_to_none=True)

    def _clip(self, scale: torch.Tensor | None) -> None:
        if self.clipping is not None:
            self.clipping.clip(scale)

    @property
    def skipped_steps(self) -> int:
        """Steps skipped after overflow; the same on all ranks of a group. Synchronises with the device."""
        return int(self.scaler.skipped_steps) if self.scaler else 0

    @property
    def skipped_samples(self) -> int:
        """This rank's samples in skipped steps. Synchronises with the device."""
        return int(self.scaler.skipped_samples) if self.scaler else 0

    def _generators(self) -> dict[str, torch.Tensor]:
        states = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            states["cuda"] = torch.cuda.get_rng_state(self.device)
        return states


def training_state(module: nn.Module, recipe: Recipe, precision: str, device: torch.device) -> TrainingState:
    """The state in which a training of a module begins; the module must be on its device and in its precision."""
    optimiser = build_optimiser(recipe.rule, module, recipe.peak_rate)
    loss_scaler = scaler(precision, optimiser, device)
    if loss_scaler:
        create_state(recipe.rule, optimiser)
    state = TrainingState(module, optimiser, device, loss_scaler)
    state.clipping = Clipping(optimiser, recipe.clip) if recipe.clip else None
    return state


def _cloned(value: Any, device: torch.device | None = None) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().to(device or value.device, copy=True)
    if isinstance(value, dict):
        return {key: _cloned(item, device) for key, item in value.items()}
    if isinstance(value, list):
        return [_cloned(item, device) for item in value]
    return value

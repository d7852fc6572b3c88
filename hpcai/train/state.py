"""Everything a training is made of at one moment, as one object that can be written and read back."""

import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import torch
from torch import nn

from hpcai.train.optimisers import build_optimiser, create_state
from hpcai.train.precision import LossScaler, scaler
from hpcai.train.recipe import Recipe


@dataclass
class CurvePoint:
    """One validation and the training until then; the same on all ranks of the group.

    seconds: of training and validation until its end, of the slowest rank. loss: mean training loss of the epoch, None
    where it or an output is not finite. counted, fingerprint: samples evaluated, and which. correct: of classifiers;
    average_precision: of each class, of detectors. validation_loss: of a validation with losses, None where not finite.
    """

    epoch: int
    seconds: float
    loss: float | None
    counted: int
    fingerprint: int
    correct: int | None = None
    average_precision: tuple[float | None, ...] | None = None
    validation_loss: float | None = None


class Snapshot(TypedDict):
    """A copy of a training state, as it is written to a file."""

    module: dict[str, torch.Tensor]
    optimiser: dict[str, object]
    scaler: dict[str, torch.Tensor]
    progress: dict[str, object]
    loss_sum: torch.Tensor
    generators: dict[str, torch.Tensor]


@dataclass
class Progress:
    """How far a training has come on this rank, and what it may claim for it.

    `epoch` and `step` name the next optimiser step (both from 0; `step` within the epoch): they are the position of
    the sampler and of the schedule. The rest is credited work.
    """

    epoch: int = 0
    step: int = 0
    steps: int = 0
    samples: int = 0
    operations: int = 0  # seen by the hooks on the executed modules, rule `model`
    training_seconds: float = 0.0
    validation_seconds: float = 0.0
    data_wait_seconds: float = 0.0
    exposed_seconds: float = 0.0  # of communication
    loading: dict[str, float] = field(default_factory=dict)  # what the loader measured during training, if anything
    curve: list[CurvePoint] = field(default_factory=list)

    def load(self, before: dict[str, float], after: dict[str, float]) -> None:
        """Add what the loader measured between two moments."""
        for name, value in after.items():
            self.loading[name] = self.loading.get(name, 0) + value - before[name]


class TrainingState:
    """Weights and statistics, optimiser, loss scaler, generators and progress of one model on one rank."""

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
        self.loss_sum = torch.zeros((), dtype=torch.float64, device=device)  # over the steps of the current epoch

    def snapshot(self) -> Snapshot:
        """A copy of the state that later steps do not change."""
        state: Snapshot = {
            "module": self.module.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "scaler": self.scaler.tensors() if self.scaler else {},
            "progress": asdict(self.progress),
            "loss_sum": self.loss_sum,
            "generators": self._generators(),
        }
        copy: Snapshot = _cloned(state)
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
        torch.set_rng_state(snapshot["generators"]["cpu"])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(snapshot["generators"]["cuda"], self.device)

    def backward(self, loss: torch.Tensor) -> None:
        """Gradients of a step's loss, times the scale if there is one."""
        (loss if self.scaler is None else loss * self.scaler.scale).backward()

    def update(self, samples: int) -> None:
        """The optimiser's step on the gradients of `samples` samples of this rank; left out if they overflowed."""
        if self.scaler is None:
            self.optimiser.step()
        else:
            self.scaler.check(samples)
            self.optimiser.step()
            self.scaler.update()
        self.optimiser.zero_grad(set_to_none=True)

    @property
    def skipped_steps(self) -> int:
        """Steps left out because of overflow; the same on all ranks of a group. Waits for the device."""
        return int(self.scaler.skipped_steps) if self.scaler else 0

    @property
    def skipped_samples(self) -> int:
        """This rank's samples in those steps. Waits for the device."""
        return int(self.scaler.skipped_samples) if self.scaler else 0

    def _generators(self) -> dict[str, torch.Tensor]:
        states = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            states["cuda"] = torch.cuda.get_rng_state(self.device)
        return states

    def write(self, path: Path) -> None:
        """Write a snapshot to `path`, atomically: a kill at any moment leaves the old file or the new one.

        It may also leave `path` + `.part`, which the next write uses again.
        """
        temporary = path.with_name(f"{path.name}.part")
        with temporary.open("wb") as file:
            torch.save(self.snapshot(), file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _fsync(path.parent)

    def read(self, path: Path) -> None:
        """Go to the snapshot in `path`."""
        self.restore(torch.load(path, map_location="cpu", weights_only=True))


def training_state(module: nn.Module, recipe: Recipe, precision: str, device: torch.device) -> TrainingState:
    """The state that a training of a module begins with: the module must be placed and in its precision."""
    optimiser = build_optimiser(recipe.rule, module, recipe.peak_rate)
    loss_scaler = scaler(precision, optimiser, device)
    if loss_scaler:
        create_state(recipe.rule, optimiser)
    return TrainingState(module, optimiser, device, loss_scaler)


def _fsync(folder: Path) -> None:
    """Make a rename in the folder survive a failure of the node."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _cloned(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _cloned(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_cloned(item) for item in value]
    return value

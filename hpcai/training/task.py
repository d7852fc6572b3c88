"""What a workload with P models defines for the stages of its tests."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import torch

from hpcai.comm.grid import Group
from hpcai.comm.shutdown import Shutdown
from hpcai.inputfile import Case
from hpcai.networks.graph import Graph
from hpcai.record.dataset import Dataset, Validation
from hpcai.record.sample_loading import Loading
from hpcai.record.training import StoppedTraining, TrainingRaw
from hpcai.train.loop import Training
from hpcai.train.state import CurvePoint

Report = Callable[[str, float], None]  # called with the progress of this rank's model, as text and as a share
Entry = TypeVar("Entry", bound=Validation)
Together = TypeVar("Together")
Raw = TypeVar("Raw", bound=TrainingRaw, covariant=True)


class Task(Protocol[Entry, Together, Raw]):
    """What a workload with P models defines for its stages. All but `describe` and `quality` is collective."""

    @property
    def loading(self) -> type[Loading]:
        """The record of what its loader measures."""

    def open(self, case: Case, group: Group) -> Any:
        """The dataset, the same on every rank."""

    def describe(self, dataset: Any) -> Dataset:
        """The dataset's record in a result."""

    def assemble(self, case: Case, group: Group, device: torch.device, dataset: Any, graph: Graph) -> Training:
        """The training of this rank's model, ready to warm up."""

    def evaluate(self, trained: Training, group: Group, shutdown: Shutdown) -> tuple[Together, int] | None:
        """Evaluation of the ensemble, and the number of miscounted validation samples; None after a shutdown."""

    def curve(self, points: Sequence[CurvePoint]) -> tuple[Entry, ...]:
        """The validations of this rank's model."""

    def quality(self, entry: Entry, samples: int) -> str:
        """The quality of one validation, as text."""

    def raw(self, shared: TrainingRaw, curve: Sequence[Entry], together: Together, training: Training) -> Raw:
        """The raw measurements: those shared by all tasks and the task's own; `curve` is of this rank's model."""

    def stopped(self, shared: StoppedTraining, curve: Sequence[Entry]) -> StoppedTraining:
        """The measurements up to a shutdown; `curve` is of the first model."""

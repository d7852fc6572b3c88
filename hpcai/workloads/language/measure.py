"""Measures prediction of the next byte by an ensemble of P transformers, each trained by Q ranks."""

from collections.abc import Sequence
from typing import Any

import torch
from mpi4py import MPI
from msgspec import convert

from hpcai.comm.grid import Group
from hpcai.comm.shutdown import Shutdown
from hpcai.comm.world import World
from hpcai.data import catalog
from hpcai.data.bootstrap import sampler
from hpcai.data.order import Shard, ValidationShard
from hpcai.data.text.text_dataset import Sequences, Text, description
from hpcai.data.text.text_loader import Loader
from hpcai.frozen.samples import TEST, VALIDATION
from hpcai.inputfile import Case
from hpcai.networks.graph import Graph
from hpcai.record.dataset import Dataset as Description
from hpcai.record.sample_loading import Loading
from hpcai.record.training import StoppedTraining, TrainingRaw
from hpcai.results.measured import Stopped
from hpcai.train import text_ensemble
from hpcai.train.loop import Training
from hpcai.train.recipe import Recipe
from hpcai.train.replay import rounding_allowance
from hpcai.train.state import CurvePoint, training_state
from hpcai.train.text_ensemble import Together
from hpcai.train.text_validation import TextValidation
from hpcai.training import stages
from hpcai.training.assembly import model_of, placed
from hpcai.training.content import check_contents
from hpcai.training.execution import execution_of, share_numbers
from hpcai.training.totals import members_of
from hpcai.workloads.language import QUALITY
from hpcai.workloads.language.checks import below
from hpcai.workloads.language.record import Evaluated, LanguageEnsemble, LanguageRaw, StoppedLanguage
from hpcai.workloads.language.record import TextValidation as Entry


def run(
    case: Case, world: World, device: torch.device, report: stages.Report, shutdown: Shutdown, folder: str = ""
) -> LanguageRaw | Stopped | None:
    """Measure one case, as `stages.run` does."""
    return stages.run(Prediction(device), case, world, device, report, shutdown, folder)


class Prediction:
    """Prediction of the next byte; the ensemble's probability is the mean of its models' probabilities."""

    loading = Loading

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._test: Sequences | None = None

    def open(self, case: Case, group: Group) -> Text:
        """The dataset, the same on every rank."""
        return catalog.open_text_for(case.data_settings)

    def describe(self, dataset: Text) -> Description:
        """The dataset's record in a result."""
        return description(dataset)

    def assemble(self, case: Case, group: Group, device: torch.device, dataset: Text, graph: Graph) -> Training:
        """The training of this rank's model, ready to warm up."""
        self._test = dataset.test
        return model_training(case, group, device, dataset, graph)

    def evaluate(self, trained: Training, group: Group, shutdown: Shutdown) -> tuple[LanguageEnsemble, int] | None:
        """Evaluation of the ensemble; None after a shutdown."""
        validation: Any = trained.validation
        loader: Any = trained.loader
        module = trained.execution.network
        together = text_ensemble.evaluate(module, group, validation, shutdown, VALIDATION)
        bag = text_ensemble.evaluate_out_of_bag(module, group, validation, loader, trained.sampler, shutdown)
        tested = self._tested(trained, group, validation, shutdown)
        if shutdown.agreed(group.active):
            return None
        found = LanguageEnsemble(
            validation=_evaluated(validation, together),
            test=tested and _evaluated(validation, tested),
            bag_evaluated=bag.evaluated if bag else 0,
            bag_bits=bag.sums.bits if bag else 0.0,
            bag_predicted=int(bag.sums.predicted) if bag else 0,
        )
        return found, together.miscounted + (tested.miscounted if tested else 0)

    def _tested(
        self, trained: Training, group: Group, validation: TextValidation, shutdown: Shutdown
    ) -> Together | None:
        """Evaluation of the ensemble on the test sequences; None of data without."""
        if self._test is None:
            return None
        batch, module = validation.shard.batch, trained.execution.network
        test = evaluation_of(self._test, group, self._device, batch)
        test.content = validation.content
        return text_ensemble.evaluate(module, group, test, shutdown, TEST)

    def curve(self, points: Sequence[CurvePoint]) -> tuple[Entry, ...]:
        """The validation curve of this rank's model."""
        return convert(points, tuple[Entry, ...], from_attributes=True)

    def quality(self, entry: Entry, samples: int) -> str:
        """Bits per byte of one validation, as text."""
        return f"{entry.quality(samples):.3f} bits per byte"

    def raw(
        self, shared: TrainingRaw, curve: Sequence[Entry], together: LanguageEnsemble, training: Training
    ) -> LanguageRaw:
        """The raw measurements; `curve` is of this rank's model."""
        group, samples = training.group, shared.dataset.validation_samples
        members = members_of(QUALITY, group, [entry.quality(samples) for entry in curve])
        found = [errors for entry in curve if (errors := below(entry, samples)) is not None]
        lowest = group.active.allreduce(max(found, default=-1.0), MPI.MAX)
        return LanguageRaw(
            **stages.with_shared(shared),
            curve=group.active.bcast(tuple(curve)),
            members=members,
            below=lowest if found else None,
            ensemble=together,
        )

    def stopped(self, shared: StoppedTraining, curve: Sequence[Entry]) -> StoppedLanguage:
        """The measurements up to a shutdown."""
        return StoppedLanguage(**stages.with_shared(shared), curve=tuple(curve))


def _evaluated(validation: TextValidation, found: Together) -> Evaluated:
    named: Any = validation.named(found.sums)
    return Evaluated(**named, sequences=found.evaluated, agreeing_pairs=found.agreeing_pairs)


def evaluation_of(split: Sequences, group: Group, device: torch.device, batch: int) -> TextValidation:
    """The evaluation of this rank's shard of a split."""
    shard = ValidationShard(len(split), group.place.replica, group.divided.replicas, batch)
    return TextValidation(Loader(split, device, batch=batch), shard)


def model_training(case: Case, group: Group, device: torch.device, dataset: Text, graph: Graph) -> Training:
    """The training of this rank's model, ready to warm up. Collective over the group."""
    recipe, seed = Recipe.of(case.settings), case.seed
    module = placed(model_of(case, group, device, graph), case, device)
    draws = sampler(case.sampler, len(dataset.train), seed, group.coordinates.group, group.planned)
    state = training_state(module, recipe, case.precision, device)
    loader: Any = Loader(dataset.train, device, batch=recipe.batch)
    validation: Any = evaluation_of(dataset.validation, group, device, recipe.batch)
    shard = Shard(draws.size, group.place.replica, group.divided.replicas, recipe.batch)
    outputs = dataset.shape[-1], dataset.number_of_classes
    execution = execution_of(case, group, device, module, outputs)
    share_numbers(state, execution, module, group, device)
    known = rounding_allowance(case.precision, case.kernels, shards=group.divided.shards)
    training = Training(state, execution, recipe, draws, shard, loader, validation, group, seed, known)
    check_contents(training, case, dataset)
    return training

"""Builds the checks of what arrives at a network, from a case of the input; and the record of the data's content."""

from typing import Any

from hpcai.comm.grid import Group
from hpcai.data.packed_images import PackedSplit
from hpcai.data.source import source_of
from hpcai.data.split_overlap import shared_samples
from hpcai.frozen.fashion_mnist import KNOWN, FashionMnist
from hpcai.frozen.recipe import Settings
from hpcai.frozen.samples import SPLITS, TRAINING, VALIDATION
from hpcai.inputfile import Case
from hpcai.record.content import ONE_IN, DataContent
from hpcai.train.evaluation_content import EvaluationContent
from hpcai.train.loop import Training
from hpcai.train.training_content import ModelInput, TrainingContent


def check_contents(training: Training, case: Case, dataset: Any, settings: Settings | None = None) -> None:
    """From now on check what arrives in a training and its evaluations; `settings` where they are not the case's."""
    group = training.group
    given = ModelInput(
        settings=case.settings if settings is None else settings,
        model=group.coordinates.group,
        models=group.planned if "SAMPLER" in case.settings else 1,
        replica=group.place.replica,
        samples=len(dataset.train),
        classes=dataset.number_of_classes,
        source=source_of(case).again(case.data_settings, dataset),
    )
    findings = training.checks.contents
    training.checks.audited.content = TrainingContent(given, findings)
    test = getattr(dataset, "test", None)
    training.validation.content = EvaluationContent(given, len(dataset.validation), findings, len(test or ()))


def data_content(case: Case, dataset: Any, group: Group) -> DataContent:
    """The content of both splits, found by the first rank. Collective over the active ranks."""
    found: DataContent = group.active.bcast(_data_content(case, dataset) if group.active.rank == 0 else None)
    return found


def _data_content(case: Case, dataset: Any) -> DataContent:
    source = source_of(case).again(case.data_settings, dataset)
    digests = source.digests() if isinstance(source, FashionMnist) else {}
    published = dataset.name in ("fashion-mnist", "fashion-mnist-subset")
    unknown = min(sum(digests[split] != known[split] for split in SPLITS) for known in KNOWN) if published else None
    packed = isinstance(dataset.validation, PackedSplit)
    return DataContent(
        training_sha256=digests.get(TRAINING),
        validation_sha256=digests.get(VALIDATION),
        unknown_splits=unknown,
        shared=shared_samples(dataset.train, dataset.validation),
        shared_allowed=len(dataset.validation) // ONE_IN if packed else 0,
    )

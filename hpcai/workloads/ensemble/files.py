"""Verification of the file of predictions beside a result: compared with the result, and counted again."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hpcai import hdf5_tables
from hpcai.data.source import source_of
from hpcai.errors import DataError
from hpcai.frozen.bootstrap import out_of_bag
from hpcai.frozen.fashion_mnist import FashionMnist
from hpcai.frozen.generated_images import GeneratedImages
from hpcai.frozen.samples import TRAINING, VALIDATION, Labelled
from hpcai.frozen.votes import Ensemble, VoteTables
from hpcai.inputfile import Case
from hpcai.record.plain import plain
from hpcai.record.result import BrokenOff
from hpcai.workloads.ensemble import prediction_tables
from hpcai.workloads.ensemble.checks import ensemble_of
from hpcai.workloads.ensemble.record import EnsembleRow, Recount

TEXTS: tuple[str, ...] = ()  # a test leaves no text file
MOST_DRAWS = 10**7  # of the models whose bootstraps are made again


def texts(tests: Sequence[EnsembleRow]) -> dict[str, str]:
    """Text files beside the result: none."""
    return {}


def names(test: EnsembleRow) -> list[str]:
    """The file of predictions of a test; none of older results."""
    return [prediction_tables.name(test.index)] if test.raw.ensemble.recount else []


def digests(test: EnsembleRow | BrokenOff) -> dict[str, str]:
    """SHA-256 by path that the result has: none, that of predictions is of the tables in the file."""
    return {}


def stopped_differences(folder: Path, test: BrokenOff) -> Iterator[str]:
    """Differences of files of a test in which the run was broken off: there are none."""
    return iter(())


def differences(folder: Path, case: Case, test: EnsembleRow) -> Iterator[str]:
    """Differences of a test's file of predictions, if there is one, from the test."""
    path, expected = folder / prediction_tables.name(case.index), test.raw.ensemble.recount
    if expected is None or not path.exists():
        return
    if not path.is_file():
        yield f"{path.name} is no file"
        return
    of, entropy = ensemble_of(case, test.raw.dataset), int(expected.entropy, 16)
    try:
        found = prediction_tables.read(path, of, entropy)
    except hdf5_tables.UNREADABLE as error:
        yield f"{path.name} cannot be read: {error}"
        return
    labels = _labels(_source(case, test), found, of, entropy)
    reasons = [*_counts(found, of, expected), *labels, *_bags(case, found, of, entropy)]
    yield from (f"{path.name}: {reason}" for reason in reasons)


def _counts(found: VoteTables, of: Ensemble, expected: Recount) -> Iterator[str]:
    """The figures that follow from the tables, and the digest of these."""
    made, stored = plain(prediction_tables.recount(found, of, int(expected.entropy, 16))), plain(expected)
    if made["sha256"] != stored["sha256"]:
        yield "not the predictions of the result file"
        return
    yield from (f"{name} {made[name]}, not {stored[name]}" for name in made if made[name] != stored[name])


def _source(case: Case, test: EnsembleRow) -> Labelled | None:
    """The data, if the same are on this machine: generated ones, or files of the digests that the result has."""
    try:
        found: Any = source_of(case).again(case.data_settings, None)
        digests = found.digests() if isinstance(found, FashionMnist) else {}
    except (DataError, OSError):
        return None
    data = test.raw.delivered and test.raw.delivered.data
    known = (data.training_sha256, data.validation_sha256) if data else ()
    same = digests and tuple(digests[split] for split in (TRAINING, VALIDATION)) == known
    return found if same or isinstance(found, GeneratedImages) else None


def _labels(source: Labelled | None, found: VoteTables, of: Ensemble, entropy: int) -> Iterator[str]:
    """The labels read anew, where the data are there."""
    for split, labels in ((VALIDATION, found.labels), (TRAINING, found.bag_labels)) if source else ():
        read = source.labels(split, of.sampled(split, entropy).samples) if source else labels
        if wrong := np.count_nonzero(read != labels):
            yield f"labels of {wrong} {split} samples that are not those of the data"


def _bags(case: Case, found: VoteTables, of: Ensemble, entropy: int) -> Iterator[str]:
    """Which models did not train on samples, of as many models as may be made again."""
    kept = of.sampled(TRAINING, entropy)
    samples = kept.samples[kept.voted]
    made_again = found.out[: MOST_DRAWS // of.training] if len(samples) else found.out[:0]
    for model, out in zip(case.models, made_again, strict=False):
        made = out_of_bag(case.sampler, of.training, case.seed, model, case.planned_groups, samples)
        if wrong := np.count_nonzero(made != out):
            yield f"model {model}: {wrong} samples are out of the bag, or are not, other than by its bootstrap"

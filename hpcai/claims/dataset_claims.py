"""Claims about the dataset of a test that trains: exact for generated and shipped data, partial for others.

`dataset_claims` makes a workload's claims from what is known of its data. The same claims hold for a test that was
broken off, whose measurements are at another path: `where`.
"""

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache, partial
from math import isclose

from hpcai.data import catalog
from hpcai.data.dataset_paths import GENERATED
from hpcai.inputfile import Case
from hpcai.inputfile.key import Value
from hpcai.record.dataset import Dataset
from hpcai.record.record import fields
from hpcai.results.alterations import changed
from hpcai.results.claim import Claim, Subject

ROUNDING = 1e-9  # of the ceiling: other machines may round sums differently

# description and target of data that do not depend on the machine
Known = Callable[[Case], tuple[Dataset, float] | None]
Holds = Callable[[Case, Dataset], bool]


def same_everywhere(datasets: Collection[str], opened: Callable[[Mapping[str, Value]], tuple[Dataset, float]]) -> Known:
    """What is known of these values of DATASET: `opened` gives description and target, and releases the data."""

    @lru_cache(maxsize=64)
    def of(settings: tuple[tuple[str, Value], ...]) -> tuple[Dataset, float]:
        return opened(dict(settings))

    def known(case: Case) -> tuple[Dataset, float] | None:
        names = ("DATASET", *catalog.ASKED)
        return of(tuple((name, case.data_settings[name]) for name in names)) if case.dataset in datasets else None

    return known


def in_files(holds: Holds) -> Callable[[Subject], bool]:
    """A claim about data in files; it holds for generated data."""
    return lambda subject: subject.case.dataset == GENERATED or holds(subject.case, dataset_of(subject))


def dataset_of(subject: Subject) -> Dataset:
    """The dataset's description in a test, complete or broken off."""
    dataset: Dataset = getattr(subject.entry, "raw", subject.entry).dataset
    return dataset


def described(known: Known, where: str = "raw.", generated: str = "") -> tuple[Claim, ...]:
    """Claims about the description of any dataset; `generated`: the example for CLASSES."""
    return (
        Claim(
            "training_samples = SAMPLES",
            lambda subject: subject.case.samples in (0, dataset_of(subject).training_samples),
            changed(f"{where}dataset.training_samples", 7),
        ),
        Claim(
            "classes = CLASSES",
            lambda subject: subject.case.classes in (0, dataset_of(subject).classes),
            changed(f"{where}dataset.classes", 77),
            example=generated,
        ),
        Claim(
            "dataset: the one that the input names",
            partial(_is_known, known),
            changed(f"{where}dataset.fingerprint", "0" * 64),
        ),
        Claim(
            "dataset: a ceiling is known of generated data only",
            lambda subject: known(subject.case) is not None or not _has_ceiling(dataset_of(subject)),
            changed(f"{where}dataset.ceiling", 0.9),
            example="files",
        ),
    )


def target_claim(target: Callable[[Case], float]) -> Claim:
    """The target quality; `target` is the dataset's own."""

    def holds(subject: Subject) -> bool:
        wanted = subject.case.target or target(subject.case)
        return isclose(subject.entry.raw.target, wanted, abs_tol=ROUNDING)

    return Claim("target: TARGET, or the dataset's own", holds, changed("raw.target", 0.04))


def _has_ceiling(dataset: Dataset) -> bool:
    return dataset.ceiling is not None or dataset.ceiling_error is not None


def _is_known(known: Known, subject: Subject) -> bool:
    found = known(subject.case)
    return found is None or _same(dataset_of(subject), found[0])


def _same(one: Dataset, other: Dataset) -> bool:
    return all(_alike(getattr(one, field.name), getattr(other, field.name)) for field in fields(Dataset))


def _alike(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return isclose(one, other, abs_tol=ROUNDING)
    return one == other

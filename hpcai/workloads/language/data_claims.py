"""Claims about the sequences of `[language]`: generated, and of files; and about their loading."""

from collections.abc import Mapping

from hpcai.claims.dataset_claims import dataset_of, described, in_files, same_everywhere, target_claim
from hpcai.claims.loading_claims import loading_claims, trained, unused
from hpcai.claims.training_claims import SAMPLES_IN_MEMORY
from hpcai.data import catalog
from hpcai.data.dataset_paths import ENWIK8, GENERATED
from hpcai.data.text.text_dataset import PLACES, VALUES, description
from hpcai.data.text.text_files import TARGET, text_name
from hpcai.formulas.official_rules import LANGUAGE
from hpcai.inputfile import Case
from hpcai.inputfile.key import Value
from hpcai.record.dataset import Dataset
from hpcai.results.alterations import changed
from hpcai.results.claim import Claim, Subject

FILES = "files"  # example that reads files


def _opened(settings: Mapping[str, Value]) -> tuple[Dataset, float]:
    found = catalog.open_text_for(settings)
    return description(found), found.target


known = same_everywhere((GENERATED,), _opened)


def predicted(case: Case, dataset: Dataset) -> int:
    """Bytes that the validation sequences predict: of files, all of the first one and half of each other one."""
    places, others = dataset.shape[2], dataset.validation_samples - 1
    return places + others * (places if case.dataset == GENERATED else places // 2)


def text_data(where: str = "raw.") -> tuple[Claim, ...]:
    """Claims about the description of sequences; `where` is its path in the entry."""
    return (
        *described(known, where, generated=FILES),
        Claim(
            "dataset: sequences of RESOLUTION bytes",
            lambda subject: dataset_of(subject).shape == (1, 1, subject.case.resolution or PLACES),
            changed(f"{where}dataset.shape", [1, 1, 9]),
            FILES,
        ),
        Claim(
            "dataset: 256 values of a byte",
            lambda subject: dataset_of(subject).classes == VALUES,
            changed(f"{where}dataset.classes", 2),
            FILES,
        ),
        Claim("dataset: the name of its kind", in_files(_named), changed(f"{where}dataset.name", "enwik8"), FILES),
    )


def _named(case: Case, data: Dataset) -> bool:
    kind = case.dataset.partition(":")[0]
    return data.name == (LANGUAGE.dataset if kind == ENWIK8 else text_name(data.shape[2], data.fingerprint))


def _target(case: Case) -> float:
    found = known(case)
    return found[1] if found else (LANGUAGE.target if case.dataset.startswith(f"{ENWIK8}:") else TARGET)


def _bytes(subject: Subject) -> int:
    """Bytes of a sequence as it is read: those that predict, and the last one."""
    return dataset_of(subject).shape[2] + 1


def _in_memory(subject: Subject) -> bool:
    """Generated sequences are not kept; of files the training and the validation bytes are, twice if staged."""
    data, dataset = subject.entry.memory.data, dataset_of(subject)
    if data is None or subject.case.dataset == GENERATED:
        return data is not None and data.data_bytes == 0
    places, copies = dataset.shape[2], 1 if subject.case.stage == "none" else 2
    least = dataset.training_samples * places + dataset.validation_samples * (places // 2)
    return bool(data.data_bytes >= copies * least)


TEXT_DATA = (*text_data(), target_claim(_target))
LOADING = (
    *loading_claims(trained, unused, _bytes),
    SAMPLES_IN_MEMORY,
    Claim(
        "memory.data: image_bytes of a sequence",
        lambda subject: subject.entry.memory.data and subject.entry.memory.data.image_bytes == _bytes(subject),
        changed("memory.data.image_bytes", 9),
    ),
    Claim("memory.data: data_bytes of the files' bytes", _in_memory, changed("memory.data.data_bytes", 9)),
)

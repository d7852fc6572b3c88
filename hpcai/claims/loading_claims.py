"""Claims about the loading of training samples: what the loaders counted against what was trained on."""

from collections.abc import Callable

from hpcai.data.prefetch import DEPTH
from hpcai.record.sample_loading import Loading
from hpcai.results.alterations import changed
from hpcai.results.claim import Claim, Subject

Amount = Callable[[Subject], int]


def _loading(subject: Subject) -> Loading | None:
    """What was counted, of a test that ended or was broken off; None of older results."""
    found: Loading | None = getattr(subject.entry, "raw", subject.entry).loading
    return found if found and found.loaded_samples is not None else None


def loading_claims(least: Amount, unused: Amount, sample_bytes: Amount, where: str = "raw.") -> tuple[Claim, ...]:
    """least: samples trained on, skipped steps included; unused: most samples made ready in vain; bytes of a sample."""

    def counted(subject: Subject) -> bool:
        found, trained = _loading(subject), least(subject)
        return not found or trained <= (found.loaded_samples or 0) <= trained + unused(subject)

    def whole(subject: Subject) -> bool:
        found = _loading(subject)
        return not found or found.loaded_bytes == (found.loaded_samples or 0) * sample_bytes(subject)

    path = f"{where}loading."
    return (
        Claim("loading: samples that were trained on", counted, changed(f"{path}loaded_samples", 1)),
        Claim("loading: bytes of whole samples", whole, changed(f"{path}loaded_bytes", 1)),
    )


def trained(subject: Subject) -> int:
    """Samples of all steps of a test, those of skipped ones included; each shard of a model loads them."""
    work = getattr(subject.entry, "raw", subject.entry).work
    return int(work.samples + work.skipped_samples) * subject.case.split.parts


def unused(subject: Subject) -> int:
    """Samples ready in vain where a training paused: else an epoch's batches are loaded for that epoch alone."""
    case, found = subject.case, getattr(subject.entry, "raw", subject.entry).checkpoints
    return found.pauses * DEPTH * case.degree * case.replica_batch if found else 0

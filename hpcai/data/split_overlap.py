"""Number of validation samples that are training samples as well: by contents, or by what each sample is made from."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from hpcai.data.generated_images import GeneratedSplit
from hpcai.data.image_dataset import ArraySplit
from hpcai.data.packed_images import PackedSplit, Selection
from hpcai.data.philox import Integers
from hpcai.data.text.generated_text import GeneratedText
from hpcai.data.text.text_files import Blocks, Windows
from hpcai.data.weather.generated import GeneratedFrames
from hpcai.data.weather.packed import PackedFrames
from hpcai.data.weather.published import PublishedFrames

Checksummed = PackedSplit | Selection | PackedFrames


def shared_samples(training: Any, validation: Any) -> int | None:
    """How many samples of the validation split are in the training split; None for splits of a kind not known here.

    Images in memory and records with checksums are compared by content, records only where their checksums are equal;
    generated samples by seed, split and counter; frames of published files by file and place, blocks of bytes by place.
    """
    match training, validation:
        case ArraySplit(), ArraySplit():
            return _common(map(_bytes, training.pixels), map(_bytes, validation.pixels))
        case GeneratedSplit(), GeneratedSplit():
            alike = (training.formula, training.number) == (validation.formula, validation.number)
            return alike * min(len(training), len(validation))
        case GeneratedFrames(), GeneratedFrames():
            alike = training.formula == validation.formula
            return alike * _common(_moments(training), _moments(validation))
        case GeneratedText(), GeneratedText():
            alike = (training.seed, training.number) == (validation.seed, validation.number)
            return alike * min(len(training), len(validation))
        case Blocks(), Windows():
            return int(np.shares_memory(training.data, validation.data)) * len(validation)
        case PublishedFrames(), PublishedFrames():
            return _common(training.places(), validation.places())
        case (PackedSplit() | Selection() | PackedFrames()), (PackedSplit() | PackedFrames()):
            return _equal_records(training, validation)
    return None


def _bytes(pixels: Any) -> bytes:
    return bytes(pixels.tobytes())


def _common(training: Iterable[Any], validation: Iterable[Any]) -> int:
    """Number of elements of the second that are in the first."""
    evaluated = list(validation)
    unique = set(evaluated)
    found = {sample for sample in training if sample in unique}
    return sum(sample in found for sample in evaluated)


def _moments(frames: GeneratedFrames) -> Iterator[tuple[int, ...]]:
    return (tuple(moment) for moment in frames.moments.tolist())


def _equal_records(training: Checksummed, validation: Checksummed) -> int:
    """Of the records with equal checksums those with equal contents."""
    sums, evaluated = training.checksums(), validation.checksums()
    order = np.argsort(sums, kind="stable")
    begins, ends = (np.searchsorted(sums[order], evaluated, side) for side in ("left", "right"))
    return sum(
        any(np.array_equal(_content(training, other), _content(validation, number)) for other in order[begin:end])
        for number, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True))
    )


def _content(split: Checksummed, index: int) -> Any:
    chosen: Integers = np.array([index])
    return split.frames(chosen) if isinstance(split, PackedFrames) else split.images(chosen)

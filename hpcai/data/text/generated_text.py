"""Generated sequences of any number and length, with a known entropy: no files, no communication, nothing in memory."""

import hashlib
from dataclasses import dataclass
from math import sqrt

import numpy as np

from hpcai.data.philox import Integers
from hpcai.data.text import chain
from hpcai.data.text.text_dataset import PLACES, Bytes, Doubles, Text, WholeSequences

SAMPLES = 20_000  # training sequences where the input says 0
TRAINING, VALIDATION = 1, 2  # numbers of the splits
MARGIN = 1.08  # target / entropy
COVERED = 64  # sequences of each split in the fingerprint
AT_ONCE = 1024  # sequences whose entropy is computed together


@dataclass(frozen=True)
class GeneratedText(WholeSequences):
    """One split of generated sequences: its first `samples`."""

    seed: int
    number: int
    samples: int
    places: int

    def sequences(self, indices: Integers) -> Bytes:
        """Sequences at the indices, uint8[n, places + 1]."""
        return chain.sequences(self.seed, self.number, indices, self.places).symbols

    def bits(self, indices: Integers) -> Doubles:
        """-log2 of the probability of each sequence, but its first byte, by the source."""
        return chain.sequences(self.seed, self.number, indices, self.places).bits

    @property
    def nbytes(self) -> int:
        """0: nothing is kept."""
        return 0


def validation_samples(samples: int) -> int:
    """A sixteenth of the training sequences, but 512 to 8,192."""
    return min(8_192, max(512, samples // 16))


def open_generated(samples: int = 0, places: int = 0, seed: int = 0) -> Text:
    """The generated set of so many training sequences; 0 stands for the defaults. The same on every rank."""
    samples, places = samples or SAMPLES, places or PLACES
    train = GeneratedText(seed, TRAINING, samples, places)
    validation = GeneratedText(seed, VALIDATION, validation_samples(samples), places)
    entropy, error = entropy_of(validation)
    return Text(
        name=f"generated-text-{places}",
        source=f"the source of generated text with seed {seed}",
        places=places,
        target=MARGIN * entropy,
        fingerprint=fingerprint(train, validation),
        train=train,
        validation=validation,
        ceiling=entropy,
        ceiling_error=error,
    )


def entropy_of(split: GeneratedText) -> tuple[float, float]:
    """Mean of -log2 of the probability of a split's bytes, and its standard error as an estimate of the source's."""
    parts = [split.bits(np.arange(first, min(first + AT_ONCE, len(split)))) for first in range(0, len(split), AT_ONCE)]
    bits = np.concatenate(parts) / split.places
    return float(bits.mean()), float(bits.std(ddof=1)) / sqrt(len(bits))


def fingerprint(*splits: GeneratedText) -> str:
    """SHA-256 over the source's constants, the sizes, and 64 sequences spread over each split."""
    constants = chain.SYMBOLS, chain.BALLS, chain.CONCENTRATION, chain.RECALL
    digest = hashlib.sha256(f"text {constants}\n".encode())
    for split in splits:
        digest.update(f"{split}\n".encode())
        digest.update(split.sequences(np.arange(COVERED) * len(split) // COVERED).data)
    return digest.hexdigest()

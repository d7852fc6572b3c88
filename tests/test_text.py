"""Sequences of bytes: generated with a known entropy, and of files; read in two ways."""

from pathlib import Path

import numpy as np
import pytest
import torch

from hpcai.data import catalog
from hpcai.data.split_overlap import shared_samples
from hpcai.data.text import chain
from hpcai.data.text.generated_text import GeneratedText, open_generated
from hpcai.data.text.text_dataset import UNCOUNTED, Text
from hpcai.data.text.text_files import open_text
from hpcai.data.text.text_loader import Loader
from hpcai.errors import DataError
from hpcai.frozen.samples import TRAINING, VALIDATION
from hpcai.frozen.texts import GeneratedTexts, TextFiles

SEED, PLACES = 5, 40
CPU = torch.device("cpu")


def delivered(data: Text, split: str, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x and y of sequences, as the loader delivers them."""
    halves = {TRAINING: data.train, VALIDATION: data.validation, "test": data.test}
    ((x, y, found),) = Loader(halves[split], CPU, batch=len(indices))([indices])
    assert (found == indices).all() and x.shape == (len(indices), 1, 1, data.places)
    return x.numpy(), y.numpy()


def written(folder: Path, sizes: dict[str, int]) -> bytes:
    """Random bytes in files of a folder; all of them in the order in which they are read."""
    random, parts = np.random.default_rng(1), []
    for name in sorted(sizes):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        parts.append(random.integers(0, 256, sizes[name], np.uint8).tobytes())
        (folder / name).write_bytes(parts[-1])
    return b"".join(parts)


def test_the_first_sequences_are_the_same_everywhere() -> None:
    made = chain.sequences(SEED, 1, np.array([0, 10**12]), PLACES).symbols
    assert made[:, :12].tolist() == FIRST
    longer = chain.sequences(SEED, 1, np.array([0, 10**12]), 2 * PLACES).symbols
    assert (longer[:, : PLACES + 1] == made).all()


FIRST = [[6, 34, 43, 19, 30, 52, 20, 61, 64, 6, 34, 34], [17, 59, 57, 64, 59, 57, 10, 49, 29, 34, 64, 29]]


def test_a_second_implementation_makes_the_same_sequences() -> None:
    data, again = open_generated(100, PLACES, SEED), GeneratedTexts(PLACES, SEED)
    for split in (TRAINING, VALIDATION):
        indices = np.array([0, 7, 99])
        x, y = delivered(data, split, indices)
        for place, sample in enumerate(again.read(split, indices, None)):
            assert (x[place] == sample.x).all() and (y[place] == sample.y).all()


def test_bits_are_those_of_the_frequencies() -> None:
    """The source's probabilities against counts: what follows a symbol that was never followed is a step of the chain.

    The first step after the first symbol comes from the table alone, in each of many sequences.
    """
    table = chain.costs(SEED).steps
    made = chain.sequences(SEED, 1, np.arange(40_000), 1)
    pairs = made.symbols.astype(int)
    assert np.allclose(made.bits, table[pairs[:, 0], pairs[:, 1]])
    counts = np.zeros((chain.SYMBOLS, chain.SYMBOLS))
    np.add.at(counts, (pairs[:, 0], pairs[:, 1]), 1)
    shares = np.exp2(-table)
    assert np.allclose(shares.sum(1), 1)
    expected = counts.sum(1, keepdims=True) * shares
    assert (counts[shares == 0] == 0).all()
    z = (counts - expected)[shares > 0] / np.sqrt(expected * (1 - shares) + 1e-9)[shares > 0]
    assert abs(float((z**2).mean()) - 1) < 0.15


def test_recalls_are_what_followed_the_key() -> None:
    made = chain.sequences(SEED, 1, np.arange(200), 100).symbols.tolist()
    recalls = 0
    for sequence in made:
        followed: dict[int, int] = {}
        place = 1
        while place < len(sequence):
            if sequence[place] != chain.SWITCH:
                followed[sequence[place - 1]] = sequence[place]
                place += 1
                continue
            if place + 2 < len(sequence):
                assert followed[sequence[place + 1]] == sequence[place + 2]
                recalls += 1
            place += 3
    share = recalls / (200 * 100)
    assert 0.07 < share < 0.095  # one in ten of those that may be, each of which takes three places


def test_no_source_is_better_than_its_own_probabilities() -> None:
    """A bigram table of many sequences stays above the entropy."""
    data = open_generated(4000, PLACES, SEED)
    assert data.ceiling is not None and data.ceiling_error is not None and data.ceiling_error < 0.02
    counts = np.full((65, 65), 0.01)
    train = data.train.sequences(np.arange(4000)).astype(int)
    np.add.at(counts, (train[:, :-1], train[:, 1:]), 1)
    seen = data.validation.sequences(np.arange(len(data.validation))).astype(int)
    found = -np.log2((counts / counts.sum(1, keepdims=True))[seen[:, :-1], seen[:, 1:]]).mean()
    assert 1.08 < found / data.ceiling < 1.2 and data.target == pytest.approx(1.08 * data.ceiling)


def test_splits_are_disjoint_and_a_larger_set_begins_with_the_smaller() -> None:
    small, large = open_generated(10, PLACES, SEED), open_generated(20, PLACES, SEED)
    indices = np.arange(10)
    assert (small.train.sequences(indices) == large.train.sequences(indices)).all()
    assert shared_samples(small.train, small.validation) == 0 == shared_samples(large.train, small.validation)
    alike = GeneratedText(SEED, 1, 30, PLACES)
    assert shared_samples(small.train, alike) == 10
    assert small.fingerprint != large.fingerprint != open_generated(20, PLACES, SEED + 1).fingerprint


def test_files_are_divided_by_position_and_each_byte_is_predicted_once(tmp_path: Path) -> None:
    whole = written(tmp_path / "texts", {"a/one": 3000, "b": 2001, "c/d/e": 1500})
    data = open_text(tmp_path / "texts", "text:texts", 0, PLACES)
    again = TextFiles(tmp_path / "texts", PLACES)
    ends = [len(whole) * share // 100 for share in (90, 95)]
    parts = dict(zip((TRAINING, VALIDATION, "test"), (whole[: ends[0]], whole[ends[0] : ends[1]], whole[ends[1] :]),
                     strict=True))
    for split, sequences in ((TRAINING, data.train), (VALIDATION, data.validation), ("test", data.test)):
        assert sequences is not None
        indices = np.arange(len(sequences))
        x, y = delivered(data, split, indices)
        counted = y[y != UNCOUNTED]
        assert bytes(counted.astype(np.uint8)) == parts[split][1 : len(counted) + 1]
        assert len(counted) == sequences.predicted > len(parts[split]) - 1 - PLACES
        for place, sample in enumerate(again.read(split, indices, None)):
            assert (x[place] == sample.x).all() and (y[place] == sample.y).all()
        if split != TRAINING:
            assert ((y == UNCOUNTED).sum(1)[1:] == PLACES // 2).all() and (y[0] != UNCOUNTED).all()
    assert data.name == f"text-{PLACES}-{data.fingerprint[:8]}"
    assert shared_samples(data.train, data.validation) == 0 and data.ceiling is None and data.target == 2.0


def test_files_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    written(tmp_path, {"small": 100, "large": 5000})
    settings = {"SAMPLES": 0, "RESOLUTION": PLACES, "SEED": 1}
    for spec, words in (
        (f"text:{tmp_path}/none", "is not there; allowed: a file or a folder"),
        (f"enwik8:{tmp_path}", "is not there; allowed: the file enwik8, unpacked from https://mattmahoney.net/dc/enwik8.zip$"),
        (f"enwik8:{tmp_path}/large", "allowed: 2b49720ec4d78c3c9fabaee6e4179a5e"),
        (f"text:{tmp_path}/small", "100 bytes for sequences of 40; allowed: at least 820"),
    ):
        with pytest.raises(DataError, match=words):
            catalog.open_text_for({**settings, "DATASET": spec})
    with pytest.raises(DataError, match="1000 training samples"):
        catalog.open_text_for({**settings, "DATASET": f"text:{tmp_path}/large", "SAMPLES": 1000})

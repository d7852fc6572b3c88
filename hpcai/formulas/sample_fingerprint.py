"""Fingerprint of a multiset of samples: a number that ranks add up, to check which samples were used and how often."""

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


def fingerprint(indices: Integers) -> int:
    """Sum of hashed indices modulo 2^64; different multisets of samples agree with probability 2^-63."""
    mixed = (indices.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ mixed >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ mixed >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return int((mixed ^ mixed >> np.uint64(31)).sum(dtype=np.uint64)) % (1 << 63)


def expected_fingerprint(n: int, block: int = 1 << 16) -> int:
    """The fingerprint of samples 0 ... n - 1, each once."""
    parts = (fingerprint(np.arange(start, min(start + block, n))) for start in range(0, n, block))
    return sum(parts) % (1 << 63)

"""Fingerprints of tensors: a 64-bit number of a few elements of each, to see whether two steps have the same.

    fingerprint = (sum of bits of element i as float64 * FACTORS[i] modulo 2^64) | 1

It is 0, which says nothing, where a tensor has fewer than LEAST elements, or one of those taken is zero, below the
smallest normal number of its type, or not finite. All backends give the same numbers.
"""

import numpy as np

ELEMENTS = 8  # taken of a tensor, one after the other in memory; all of smaller tensors
LEAST = 4
TYPES = ("float32", "float64", "bfloat16", "float16")  # of elements; the place is the code of a type
FACTORS = np.array(
    [
        *(0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93),
        *(0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53),
    ],
    np.uint64,
)

"""Fingerprints of tensors: a 64-bit number of a few elements of each, to see whether two steps have the same.

    word = bits of an element as float64, a signed number
    fingerprint = (sum of (word ^ word >> SHIFTS[0] ^ word >> SHIFTS[1]) * FACTORS[i] modulo 2^64) | 1

The shifts bring the bits of fp32 and of bf16, which stand at the top of a word, to its bottom: a product's low bits
depend on the low bits of its factors alone. The fingerprint is 0, which says nothing, where fewer than LEAST of the
elements taken are normal numbers of their type, or one is not finite: LEAST elements of 16 bits have enough bits that
two steps do not share them by chance. All backends give the same numbers.
"""

import numpy as np

ELEMENTS = 8  # taken of a tensor, one after the other in memory; all of smaller tensors
LEAST = 6
SHIFTS = (29, 45)  # zero bits at the end of fp32 and of bf16 as float64
TYPES = ("float32", "float64", "bfloat16", "float16")  # of elements; the place is the code of a type
FACTORS = np.array(
    [
        *(0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93),
        *(0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53),
    ],
    np.uint64,
)

"""Quantisation to int8 with one scale an image, matrix row or filter, so that the largest magnitude becomes 127.

    scale = largest / 127        q = number * (1 / scale), to the nearest integer, ties to even

Every operation is in fp32, so that all backends give the same bytes. Nothing is clipped. If the largest magnitude is
below LEAST, all bytes and the scale are 0; if a number is not finite, the scale is not finite either.
"""

HIGHEST = 127
LEAST = 2.0**-100  # below it 1 / scale approaches the fp32 overflow
MOST_TERMS = (2**31 - 1) // HIGHEST**2  # terms of a sum that always fits into int32

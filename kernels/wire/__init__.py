"""Gradients as they are sent in int8: one power of two as the scale of a vector, and what rounding leaves.

    scale = the least power of two that is at least largest / 127
    q = number / scale, to the nearest integer, ties to even

A power of two makes every product with it, and so what rounding leaves, exact in fp32. If the largest magnitude is
below LEAST the scale and all bytes are 0; if a number is not finite the scale is infinite, all bytes are 0, and
dequantised numbers are not finite. All backends give the same bytes.
"""

HIGHEST = 127
LEAST = 2.0**-100  # below it 1 / scale approaches the fp32 overflow
SCALE_BYTES = 4  # of the fp32 scale, in front of the bytes of a packet

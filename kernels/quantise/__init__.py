"""Numbers as bytes: those of a picture, a row of a matrix or a filter share a scale, so that the largest becomes 127.

    scale = largest / 127        q = number * (1 / scale), to the nearest whole number, ties to even

in fp32, operation by operation, so that every backend makes the same bytes. Nothing is cut off. Where the largest is
below LEAST all are 0, and so is the scale; where one is not finite, the scale is not either.
"""

HIGHEST = 127
LEAST = 2.0**-100  # below it 1 / scale comes near what fp32 cannot hold
MOST_TERMS = (2**31 - 1) // HIGHEST**2  # of a sum that int32 holds, whatever is summed

"""The end of a chain in whole numbers. Frozen: made to be obvious, not fast."""

from . import BITS, FLIPPED


def result(start: int, added: int, steps: int) -> int:
    """x after `steps` steps of x = (x ^ FLIPPED) + added, modulo 2^64: to exchange the highest bit is to add it."""
    return (start + steps * (added + FLIPPED)) % 2**BITS

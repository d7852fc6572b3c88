"""Verification of a stored result: it is made again from its input and raw measurements, and compared."""

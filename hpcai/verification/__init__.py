"""Verification of a stored result: recomputed from its input and raw measurements, and compared."""

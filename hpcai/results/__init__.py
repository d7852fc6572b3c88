"""Results from raw measurements: checks, scores, claims. Pure functions, so that a stored result can be verified."""

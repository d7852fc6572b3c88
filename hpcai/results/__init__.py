"""From raw measurements to entries of a result: checks, scores, claims. Pure, so that a stored result is verified."""

"""The repeated multiply-add in float64. Frozen: made to be obvious, not fast."""


def repeated(factor: float, term: float, steps: int) -> float:
    """What 0 becomes by sum = sum * factor + term, so often."""
    result = 0.0
    for _ in range(steps):
        result = result * factor + term
    return result

"""Learning rate schedules: constant, cosine, linear, polynomial, with linear warm-up; pure functions of the step."""

from math import cos, pi


def learning_rate(kind: str, peak: float, step: int, steps: int, warmup: float) -> float:
    """The rate of optimiser step `step` (from 0) of `steps`.

    It rises linearly to `peak` over the first `warmup` steps, then falls to 0 at the end along a half cosine, a line or
    a parabola (You et al., 2017), or stays. The warm-up's first step already has a rate above 0. Same on every rank.
    """
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    left = (steps - step) / max(steps - warmup, 1)
    return peak * {"cosine": 0.5 * (1 - cos(pi * left)), "linear": left, "polynomial": left**2, "constant": 1.0}[kind]

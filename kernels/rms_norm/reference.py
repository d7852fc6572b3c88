"""RMS norm and its gradients in float64, as defined, with the largest differences that fp32 allows.

u = 2^-24, t(n) = 8 sqrt(n) u the tolerance of a sum of n products relative to the root of its summed squares, f
features:

    r       relative R = t(f) sqrt(sum x^4) / sum x^2 + 3 u: half of the error of the squares, quotient and root
    y       (R + 2 u) |y|
    mean m of g w x: |dm| <= t(f) sqrt(sum (g w x)^2) / f + 2 u |m|
    dx = r (g w - x r^2 m): r ((R + 3 u) |g w| + |x| r^2 ((3 R + 4 u) |m| + |dm|)); with b beside it 2 u |b| more
    dw = sum over the rows of g x r: t(rows) sqrt(sum (g x r)^2) + sum of (R + 2 u) |g x r|
"""

import numpy as np

from ..residual import Compared
from ..spec import UNIT_ROUNDOFF_FP32, Float64, fp32_tolerance

U = UNIT_ROUNDOFF_FP32


def forward(x: Float64, weight: Float64, eps: float) -> Float64:
    """y."""
    return weight * x / np.sqrt(np.square(x).mean(axis=1, keepdims=True) + eps)


def backward(g: Float64, x: Float64, weight: Float64, eps: float) -> tuple[Float64, Float64]:
    """Gradients of x and of the weights for g, that of y."""
    r = 1 / np.sqrt(np.square(x).mean(axis=1, keepdims=True) + eps)
    mean = (g * weight * x).mean(axis=1, keepdims=True)
    return r * (g * weight - x * r**2 * mean), (g * x * r).sum(axis=0)


def _relative(x: Float64) -> Float64:
    squares = np.square(x)
    total = np.maximum(squares.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    root = np.sqrt(np.square(squares).sum(axis=1, keepdims=True))
    return np.asarray(fp32_tolerance(x.shape[1]) * root / total + 3 * U, np.float64)


def compared(y: Float64, x: Float64, weight: Float64, eps: float) -> Compared:
    """A y with its exact values and the allowed differences."""
    exact = forward(x, weight, eps)
    return Compared(y, exact, (_relative(x) + 2 * U) * np.abs(exact))


def compared_gradients(
    dx: Float64, dweight: Float64, g: Float64, x: Float64, weight: Float64, eps: float, beside: Float64 | float = 0.0
) -> tuple[Compared, Compared]:
    """Gradients with their exact values and the allowed differences; `beside`: what is added to that of x."""
    exact, R = backward(g, x, weight, eps), _relative(x)
    r, scaled, features = 1 / np.sqrt(np.square(x).mean(axis=1, keepdims=True) + eps), g * weight, x.shape[1]
    mean = np.abs((scaled * x).mean(axis=1, keepdims=True))
    root = np.sqrt(np.square(scaled * x).sum(axis=1, keepdims=True))
    of_mean = fp32_tolerance(features) * root / features + 2 * U * mean
    of_x = r * ((R + 3 * U) * np.abs(scaled) + np.abs(x) * r**2 * ((3 * R + 4 * U) * mean + of_mean))
    terms = g * x * r
    of_sum = fp32_tolerance(len(x)) * np.sqrt(np.square(terms).sum(axis=0))
    of_weight = of_sum + ((R + 2 * U) * np.abs(terms)).sum(axis=0)
    return Compared(dx, exact[0] + beside, of_x + 2 * U * np.abs(beside)), Compared(dweight, exact[1], of_weight)

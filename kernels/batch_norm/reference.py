"""Batch normalisation and its gradients in float64, as defined."""

import numpy as np

from ..spec import Float64
from . import Gradients


def forward(
    x: Float64, other: Float64 | None, weight: Float64, bias: Float64, eps: float, relu: bool
) -> tuple[Float64, Float64, Float64]:
    """y, mean and variance."""
    mean, variance = x.mean(axis=0), x.var(axis=0)
    y = weight * (x - mean) / np.sqrt(variance + eps) + bias + (0.0 if other is None else other)
    return np.maximum(y, 0.0) if relu else y, mean, variance


def backward(
    g: Float64, x: Float64, other: Float64 | None, weight: Float64, bias: Float64, eps: float, relu: bool
) -> Gradients:
    """Gradients for g, the gradient of y (the same paper, section 3)."""
    y, mean, variance = forward(x, other, weight, bias, eps, relu)
    passed = g * (y > 0) if relu else g
    centred, root = x - mean, np.sqrt(variance + eps)
    tilt = (passed * centred).mean(axis=0) / root**2
    dx = weight / root * (passed - passed.mean(axis=0) - centred * tilt)
    dweight = (passed * centred).sum(axis=0) / root
    return Gradients(dx, None if other is None else passed, dweight, passed.sum(axis=0))

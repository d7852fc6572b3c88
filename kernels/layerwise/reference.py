"""LARS and LAMB in NumPy, in float64. Frozen: made to be obvious, not fast."""

from typing import Any

import numpy as np

from . import Lamb, Lars


def lars(weights: Any, gradients: Any, velocity: Any, h: Lars) -> tuple[Any, Any]:
    """New weights and velocity."""
    w, g, v = (np.asarray(x, np.float64) for x in (weights, gradients, velocity))
    g = g / h.scale
    norm_w, norm_g = np.linalg.norm(w), np.linalg.norm(g)
    adapted = h.trust > 0 and norm_w > 0 and norm_g > 0
    ratio = h.trust * norm_w / (norm_g + h.decay * norm_w) if adapted else 1.0
    v = h.momentum * v + h.rate * ratio * (g + h.decay * w)
    return w - v, v


def lamb(weights: Any, gradients: Any, first: Any, second: Any, h: Lamb) -> tuple[Any, Any, Any]:
    """New weights, first and second moment."""
    w, g, m, v = (np.asarray(x, np.float64) for x in (weights, gradients, first, second))
    g = g / h.scale
    m, v = h.beta1 * m + (1 - h.beta1) * g, h.beta2 * v + (1 - h.beta2) * g * g
    m_hat, v_hat = m / (1 - h.beta1**h.number), v / (1 - h.beta2**h.number)
    u = m_hat / (np.sqrt(v_hat) + h.epsilon) + h.decay * w
    norm_w, norm_u = np.linalg.norm(w), np.linalg.norm(u)
    ratio = norm_w / norm_u if h.adapted and norm_w > 0 and norm_u > 0 else 1.0
    return w - h.rate * ratio * u, m, v

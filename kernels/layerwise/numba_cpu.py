"""LARS and LAMB in Numba, tensor by tensor: a pass for the norms, one for the weights, which finds them in the cache.

Norms are summed in fp64. LARS moves 7 arrays through the memory if no cache holds a tensor, as AdamW does; LAMB 10.
Where vectors are parts of tensors, squared norms of the whole tensors have to be given: then the two passes are calls
of their own, and the second finds nothing in the cache.
"""

from math import sqrt
from typing import Any

import numpy as np

from ..cpu.compiled import compiled, vectorised
from ..cpu.parallel import parallel_for
from ..spec import Float32
from . import Lamb, Lars

F32: Any = np.float32
Squares = tuple[float, float]
SERIAL_ELEMENTS = 2**14  # of a tensor that one thread updates sooner than several


def square_sums(weights: Float32, gradients: Float32, threads: int) -> Squares:
    """Squared norms of weights and gradients."""
    sums = np.zeros((threads, 2))
    _norms(_threads(weights, threads), weights, gradients, sums)
    return _total(sums)


def lars(
    weights: Float32, gradients: Float32, velocity: Float32, h: Lars, threads: int, squares: Squares | None = None
) -> None:
    """Update weights and velocity, vectors of fp32, in place.

    `squares`: squared norms of weights and gradients of the whole tensor, where the vectors are parts of it.
    """
    sums = np.zeros((threads, 2))
    if squares is not None:
        sums[0] = squares
    _lars(_threads(weights, threads), weights, gradients, velocity, sums, squares is not None, *map(float, h))


def lamb(weights: Float32, gradients: Float32, first: Float32, second: Float32, h: Lamb, threads: int) -> None:
    """Update weights and moments, vectors of fp32, in place."""
    sums = np.zeros((threads, 2))
    _lamb(_threads(weights, threads), weights, gradients, first, second, sums, h.rate, h.adapted, _factors(h))


def lamb_moments(
    weights: Float32, gradients: Float32, first: Float32, second: Float32, h: Lamb, threads: int
) -> Squares:
    """The first pass of `lamb`: update the moments; returns the squared norms of weights and moves."""
    sums = np.zeros((threads, 2))
    _first_pass(_threads(weights, threads), weights, gradients, first, second, sums, _factors(h))
    return _total(sums)


def lamb_weights(
    weights: Float32, first: Float32, second: Float32, h: Lamb, threads: int, squares: Squares
) -> None:
    """The second pass: update the weights, by the squared norms of weights and moves of the whole tensor."""
    sums = np.array([squares])
    _second_pass(_threads(weights, threads), weights, first, second, sums, h.rate, h.adapted, _factors(h))


def _factors(h: Lamb) -> tuple[float, ...]:
    corrections = (1 - h.beta1**h.number, 1 - h.beta2**h.number)
    return (h.beta1, h.beta2, *corrections, h.epsilon, h.decay, 1.0 / h.scale)


def _total(sums: Any) -> Squares:
    of_weights, of_others = sums.sum(0).tolist()
    return of_weights, of_others


def _threads(weights: Float32, threads: int) -> int:
    return threads if len(weights) > SERIAL_ELEMENTS else 1


@compiled
def _share(part: Any, parts: Any, vector: Any) -> Any:
    """The elements of a thread. Loops from 0 over slices are vectorised: their indices need no test of the sign."""
    size = (len(vector) + parts - 1) // parts
    return vector[part * size : (part + 1) * size]


@vectorised
def _square_sums(part: Any, parts: Any, weights: Any, gradients: Any, sums: Any) -> None:
    ws, gs = _share(part, parts, weights), _share(part, parts, gradients)
    of_weights, of_gradients = 0.0, 0.0
    for i in range(len(ws)):
        w, g = np.float64(ws[i]), np.float64(gs[i])
        of_weights += w * w
        of_gradients += g * g
    sums[part, 0], sums[part, 1] = of_weights, of_gradients


@compiled
def _norms(threads: Any, weights: Any, gradients: Any, sums: Any) -> None:
    parallel_for(_square_sums, threads, (threads, weights, gradients, sums))


@compiled
def _lars(
    threads: Any,
    weights: Any,
    gradients: Any,
    velocity: Any,
    sums: Any,
    given: Any,
    rate: Any,
    decay: Any,
    momentum: Any,
    trust: Any,
    scale: Any,
) -> None:
    ratio = 1.0
    if trust > 0:
        if not given:
            _norms(threads, weights, gradients, sums)
        of_weights, of_gradients = sqrt(sums[:, 0].sum()), sqrt(sums[:, 1].sum()) / scale
        if of_weights > 0 and of_gradients > 0:
            ratio = trust * of_weights / (of_gradients + decay * of_weights)
    factors = (F32(momentum), F32(rate * ratio / scale), F32(rate * ratio * decay))
    parallel_for(_lars_update, threads, (threads, weights, gradients, velocity, *factors))


@vectorised
def _lars_update(
    part: Any, parts: Any, weights: Any, gradients: Any, velocity: Any, momentum: Any, of_gradient: Any, of_weight: Any
) -> None:
    ws, gs, vs = _share(part, parts, weights), _share(part, parts, gradients), _share(part, parts, velocity)
    for i in range(len(ws)):
        v = momentum * vs[i] + (of_gradient * gs[i] + of_weight * ws[i])
        vs[i] = v
        ws[i] -= v


@compiled
def _lamb(
    threads: Any,
    weights: Any,
    gradients: Any,
    first: Any,
    second: Any,
    sums: Any,
    rate: Any,
    adapted: Any,
    factors: Any,
) -> None:
    _first_pass(threads, weights, gradients, first, second, sums, factors)
    _second_pass(threads, weights, first, second, sums, rate, adapted, factors)


@compiled
def _first_pass(
    threads: Any, weights: Any, gradients: Any, first: Any, second: Any, sums: Any, factors: Any
) -> None:
    beta1, beta2, _, _, _, _, unscaled = factors
    betas = (F32(beta1), F32(1 - beta1), F32(beta2), F32(1 - beta2), F32(unscaled))
    shape = _shape(factors)
    parallel_for(_lamb_moments, threads, (threads, weights, gradients, first, second, sums, *betas, *shape))


@compiled
def _second_pass(
    threads: Any, weights: Any, first: Any, second: Any, sums: Any, rate: Any, adapted: Any, factors: Any
) -> None:
    of_weights, of_updates = sqrt(sums[:, 0].sum()), sqrt(sums[:, 1].sum())
    ratio = of_weights / of_updates if adapted and of_weights > 0 and of_updates > 0 else 1.0
    parallel_for(_lamb_update, threads, (threads, weights, first, second, F32(rate * ratio), *_shape(factors)))


@compiled
def _shape(factors: Any) -> Any:
    """Factors of the move: of the moments, epsilon and decay."""
    _, _, correction1, correction2, epsilon, decay, _ = factors
    return F32(1 / correction1), F32(1 / sqrt(correction2)), F32(epsilon), F32(decay)


@vectorised
def _lamb_moments(
    part: Any,
    parts: Any,
    weights: Any,
    gradients: Any,
    first: Any,
    second: Any,
    sums: Any,
    beta1: Any,
    left1: Any,
    beta2: Any,
    left2: Any,
    unscaled: Any,
    of_first: Any,
    of_second: Any,
    epsilon: Any,
    decay: Any,
) -> None:
    ws, gs = _share(part, parts, weights), _share(part, parts, gradients)
    ms, vs = _share(part, parts, first), _share(part, parts, second)
    of_weights, of_updates = 0.0, 0.0
    for i in range(len(ws)):
        g, w = unscaled * gs[i], ws[i]
        m, v = beta1 * ms[i] + left1 * g, beta2 * vs[i] + left2 * (g * g)
        ms[i], vs[i] = m, v
        u = m * of_first / (np.sqrt(v) * of_second + epsilon) + decay * w
        of_weights += np.float64(w) * np.float64(w)
        of_updates += np.float64(u) * np.float64(u)
    sums[part, 0], sums[part, 1] = of_weights, of_updates


@vectorised
def _lamb_update(
    part: Any,
    parts: Any,
    weights: Any,
    first: Any,
    second: Any,
    rate: Any,
    of_first: Any,
    of_second: Any,
    epsilon: Any,
    decay: Any,
) -> None:
    ws, ms, vs = _share(part, parts, weights), _share(part, parts, first), _share(part, parts, second)
    for i in range(len(ws)):
        u = ms[i] * of_first / (np.sqrt(vs[i]) * of_second + epsilon) + decay * ws[i]
        ws[i] -= rate * u

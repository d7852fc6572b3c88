"""Causal attention and its gradients in float64, as defined, with the largest differences that a type allows.

The bound, u = 2^-24, t(n) = 8 sqrt(n) u the tolerance of a sum of n products relative to the root of its summed squares
(spec.fp32_tolerance), d features, n places, P the probabilities, S = scale Q K^T. First order, and linear in the errors
of a row, which are not independent of each other:

    score        |dS| <= scale t(d) sqrt(Q^2 K^2^T) + 4 u (|S| + max |S| of the row): the sum, the rounding of the scale
                 and of its product, the difference to the maximum, which itself is rounded
    power        relative E = |dS| + 3 u sqrt(1 + n / TILE): exponential and rounding; so for each tile, since a new
                 maximum multiplies by another exponential; besides, absolute, UNDERFLOW
    sum          relative L = sum of P E over the row + t(n) sqrt(sum of P^2)
    output       P E |V| + L |O| + t(n) sqrt(P^2 V^2) + 2 u |O|
    probability  relative F = |dS| + L + 3 u + u |logarithm of the sum|: from the rounded logarithm
    dV           P^T F |G| + t(n) sqrt(P^2^T G^2)
    dP = G V^T   |d dP| <= t(d) sqrt(G^2 V^2^T)
    mean         sum over features of |G| |dO| + t(d) sqrt(sum of G^2 O^2)
    dS           P (F |dP - mean| + |d dP| + |d mean| + 2 u |dP - mean|)
    dQ, dK       scale (|d dS| |K| + t(n) sqrt(dS^2 K^2)), and the same of dS^T and Q

In 16 bits of unit roundoff h the weights P and dS of a product, and results, are rounded by h of themselves, or of the
smallest normal number, of which twice is allowed, as of other results in 16 bits: E + 2 h in the output, F + 2 h in dV,
2 h |dS| in dS, 2 h of each result. t(n) is n u larger, as tensor cores cut sums off (verify.cut_off).
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..arithmetic import FP32, Arithmetic
from ..residual import Compared
from ..spec import DTYPES, FORWARD, UNIT_ROUNDOFF_FP32, Float64, Tensors, dtype_of, fp32_tolerance
from . import Shape

U = UNIT_ROUNDOFF_FP32
TILE = 64  # keys that a tile has at least
UNDERFLOW = 2.0**-124  # four times the smallest normal number, as which, or as 0, smaller powers count


class Bounded(NamedTuple):
    """Exact values of a head, and the differences that are allowed."""

    exact: Float64
    allowed: Float64


class Head(NamedTuple):
    """A head's scale, rows [places, features], and what they are stored in."""

    scale: float
    q: Float64
    k: Float64
    v: Float64
    stored: Arithmetic = FP32

    @property
    def scores(self) -> Float64:
        """Scaled scores; -inf where masked."""
        return np.where(np.tri(len(self.q), dtype=bool), self.scale * (self.q @ self.k.T), -np.inf)

    def tolerance(self, terms: int) -> float:
        """Of a sum of products."""
        return fp32_tolerance(terms) + (terms * U if self.stored.roundoff else 0.0)

    def rounding(self, values: Float64) -> Float64:
        """Twice what values of these sizes are rounded by where they are stored, at most."""
        return 2 * self.stored.roundoff * np.maximum(values, self.stored.normal)


def probabilities(scores: Float64) -> tuple[Float64, Float64]:
    """Softmax of each row, and the logarithm of its sum."""
    highest = scores.max(axis=1, keepdims=True)
    powers = np.exp(scores - highest)
    sums = powers.sum(axis=1, keepdims=True)
    return powers / sums, (highest + np.log(sums))[:, 0]


def output(head: Head) -> Float64:
    """P V."""
    return probabilities(head.scores)[0] @ head.v


def gradients(head: Head, g: Float64) -> tuple[Float64, Float64, Float64]:
    """Gradients of q, k and v for g, that of the output."""
    P = probabilities(head.scores)[0]
    dP = g @ head.v.T
    dS = head.scale * P * (dP - (P * dP).sum(axis=1, keepdims=True))
    return dS @ head.k, dS.T @ head.q, P.T @ g


def rotated(rows: Float64, cosines: Float64, sines: Float64) -> Bounded:
    """Rows with each pair of features i, i + features / 2 rotated; three roundings of each of two products."""
    a, b = np.split(rows, 2, axis=-1)
    exact = np.concatenate([a * cosines - b * sines, b * cosines + a * sines], axis=-1)
    sizes = np.concatenate([np.abs(a * cosines) + np.abs(b * sines), np.abs(b * cosines) + np.abs(a * sines)], axis=-1)
    return Bounded(exact, 3 * U * sizes)


class _Errors(NamedTuple):
    """P, and the bounds on scores (absolute), on their powers and sums (relative), and on the output."""

    P: Float64
    scores: Float64
    sums: Float64
    output: Float64
    log_sums: Float64


def _root(left: Float64, right: Float64) -> Float64:
    return np.sqrt(np.square(left) @ np.square(right))


def _errors(head: Head) -> _Errors:
    n, d = head.q.shape
    scores = head.scores
    P, log_sums = probabilities(scores)
    size = np.where(np.isfinite(scores), np.abs(scores), 0.0)
    of_scores = head.scale * head.tolerance(d) * _root(head.q, head.k.T) + 4 * U * (
        size + size.max(axis=1, keepdims=True)
    )
    powers = of_scores + 3 * U * np.sqrt(1 + n / TILE)
    sums = (P * powers).sum(axis=1) + head.tolerance(n) * np.sqrt(np.square(P).sum(axis=1))
    right = np.abs(P @ head.v)
    of_weights = P * powers + UNDERFLOW + head.rounding(P)
    of_output = of_weights @ np.abs(head.v) + (sums[:, None] + 2 * U) * right + head.rounding(right)
    of_output += head.tolerance(n) * _root(P, head.v)
    return _Errors(P, of_scores, sums, of_output, log_sums)


def bounded_output(head: Head) -> Bounded:
    """The output and what is allowed."""
    return Bounded(output(head), _errors(head).output)


def bounded_gradients(head: Head, g: Float64) -> tuple[Bounded, Bounded, Bounded]:
    """Gradients of q, k and v and what is allowed."""
    errors, (n, d), P = _errors(head), head.q.shape, _errors(head).P
    dP, out = g @ head.v.T, P @ head.v
    centred = np.abs(dP - (g * out).sum(axis=1, keepdims=True))
    relative = errors.scores + (errors.sums + 3 * U + U * np.abs(errors.log_sums))[:, None]
    of_mean = (np.abs(g) * errors.output).sum(axis=1) + head.tolerance(d) * np.sqrt(np.square(g * out).sum(axis=1))
    of_dP = head.tolerance(d) * _root(g, head.v.T)
    of_dS = P * ((relative + 2 * U) * centred + of_dP + of_mean[:, None]) + UNDERFLOW * centred
    dS, t = P * centred, head.tolerance(n)
    of_dS += head.rounding(dS)
    of_q = head.scale * (of_dS @ np.abs(head.k) + t * _root(dS, head.k))
    of_k = head.scale * (of_dS.T @ np.abs(head.q) + t * _root(dS.T, head.q))
    of_v = (P * relative + UNDERFLOW + head.rounding(P)).T @ np.abs(g) + t * _root(P.T, g)
    made = zip(gradients(head, g), (of_q, of_k, of_v), strict=True)
    q, k, v = (Bounded(exact, allowed + head.rounding(np.abs(exact))) for exact, allowed in made)
    return q, k, v


def head_of(data: Tensors, shape: Shape, number: int) -> tuple[Head, Float64]:
    """Head `number` of all samples, and the gradient of its output, empty if there is none."""
    at = divmod(number, shape.heads)
    q, k, v = (np.asarray(each[at], np.float64) for each in data.x)
    head = Head(shape.scale, q, k, v, DTYPES[dtype_of(data)].arithmetic)
    return head, np.asarray(data.g[at] if data.g.ndim == len(shape.y) else (), np.float64)


def bounded(data: Tensors, shape: Shape, direction: str, number: int) -> tuple[Bounded, ...]:
    """The results of a head and what is allowed: the output, or the gradients of queries, keys and values."""
    head, g = head_of(data, shape, number)
    return (bounded_output(head),) if direction == FORWARD else bounded_gradients(head, g)


def compared(
    result: Any, data: Tensors, shape: Shape, direction: str, slack: float = 1.0, heads: Iterable[int] | None = None
) -> Iterator[Compared]:
    """Heads of a provider's result, all of them by default, with exact values and the allowed differences."""
    for number in range(shape.batch * shape.heads) if heads is None else heads:
        at = divmod(number, shape.heads)
        parts = [result[at]] if direction == FORWARD else [each[at] for each in result]
        for found, known in zip(parts, bounded(data, shape, direction, number), strict=True):
            yield Compared(np.asarray(found, np.float64), known.exact, slack * known.allowed)

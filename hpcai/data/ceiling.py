"""Ceiling of the quality on generated images: Bayes' rule on their symbols, averaged over random trials.

An image is a random function of its symbols, of a shift by whole cells, and of variables that are independent of the
class (a shift within a cell, synonyms, light, noise). No classifier of images can be better than the Bayes classifier
of the shifted symbols. Its quality is therefore an upper bound, reached if every symbol can be recognised.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hpcai.kernels.images import TRIALS, Formula, Part
from hpcai.kernels.images.numba_cpu import below, compiled, draw, draw_cells, draw_code, key_of

_WORK = 10**9  # iterations of the innermost loops, about a second
_FEWEST, _MOST = 500, 20_000  # trials


class Ceiling(NamedTuple):
    """Highest expected top-1 quality of any classifier, and the standard error of its estimate."""

    quality: float
    error: float


def ceiling(formula: Formula) -> Ceiling:
    """Ceiling of a formula's images with their noisy labels; the same on every rank and machine.

    A classifier that predicts the class with accuracy A predicts a label that is replaced by a uniform draw with
    probability eta with accuracy A (1 - eta + eta / K) + (1 - A) eta / K.
    """
    weights = _weights(formula)
    codes = _codes(key_of(formula), formula.tag_of(Part.CODE), formula.symbols, formula.classes, formula.grid**2)
    members, starts = _by_symbol(codes, formula.symbols)
    tags = formula.tag_of(Part.VIEW, TRIALS), formula.tag_of(Part.CELL, TRIALS)
    numbers = formula.symbols, formula.grid, formula.shifts, formula.corrupted, trials(formula)
    total, squares = _posteriors(key_of(formula), tags, numbers, codes, members, starts, weights)
    return _of_labels(formula, total, squares)


def trials(formula: Formula) -> int:
    """Number of images that Bayes' rule is applied to: as many as take seconds."""
    cells, shifts = formula.grid**2, formula.shifts**2
    steps = shifts * formula.classes * (2 + cells / formula.symbols)
    return int(min(_MOST, max(_FEWEST, _WORK // steps)))


def _of_labels(formula: Formula, total: float, squares: float) -> Ceiling:
    n, kept = trials(formula), 1.0 - formula.relabelled / 2**32
    quality = total / n
    error = np.sqrt(max(0.0, squares / n - quality**2) / n)
    return Ceiling(float(quality * kept + (1.0 - kept) / formula.classes), float(error) * kept)


def _weights(formula: Formula) -> npt.NDArray[np.float64]:
    """Likelihood of a code word by its matching cells, relative to one that matches in all; products, no logarithms.

    A symbol is right with probability 1 - epsilon + epsilon / V and any other with epsilon / V.
    """
    ratio = formula.corrupted / ((2**32 - formula.corrupted) * formula.symbols + formula.corrupted)
    weights = np.ones(formula.grid**2 + 1)
    for matches in range(formula.grid**2 - 1, -1, -1):
        weights[matches] = weights[matches + 1] * ratio
    return weights


def _by_symbol(codes: npt.NDArray[np.int64], symbols: int) -> tuple[Any, Any]:
    """For every cell and symbol the classes whose code word has it there: members[cell, starts[cell, symbol]: …]."""
    members = np.argsort(codes, axis=0, kind="stable").T.astype(np.int32, order="C")
    counts = np.stack([np.bincount(column, minlength=symbols) for column in codes.T])
    return members, np.concatenate([np.zeros((len(counts), 1), np.int64), np.cumsum(counts, axis=1)], axis=1)


@compiled
def _codes(key, tag, symbols, classes, cells):  # type: ignore[no-untyped-def]
    codes = np.empty((classes, cells), np.int64)
    for number in range(classes):
        draw_code(key, tag, symbols, number, codes[number])
    return codes


@compiled
def _likelihoods(seen, shifts, down, right, members, starts, weights, matches, likelihoods):  # type: ignore[no-untyped-def]
    """Fills `likelihoods`, float64[classes]: of the symbols seen, int64[grid, grid], summed over all whole shifts."""
    grid = len(seen)
    likelihoods[:] = 0.0
    for shift in range(shifts * shifts):
        matches[:] = 0
        for cell in range(grid * grid):
            row = (cell // grid + down - shift // shifts + grid) % grid
            column = (cell % grid + right - shift % shifts + grid) % grid
            symbol = seen[row, column]
            for k in range(starts[cell, symbol], starts[cell, symbol + 1]):
                matches[members[cell, k]] += 1
        for number in range(len(matches)):
            likelihoods[number] += weights[matches[number]]


@compiled
def _posteriors(key, tags, numbers, codes, members, starts, weights):  # type: ignore[no-untyped-def]
    """Sums, over the trials, of the likeliest class's probability and of its square."""
    view_tag, cell_tag = tags
    symbols, grid, shifts, corrupted, count = numbers
    classes = len(codes)
    matches, likelihoods = np.empty(classes, np.int32), np.empty(classes)
    total, squares = 0.0, 0.0
    for trial in range(count):
        cells = codes[trial % classes].copy()
        draw_cells(key, cell_tag, symbols, 1, corrupted, trial, cells)
        view = draw(key, view_tag, trial, 0)
        down, right = below(shifts, view[0]), below(shifts, view[1])
        _likelihoods(cells.reshape(grid, grid), shifts, down, right, members, starts, weights, matches, likelihoods)
        probability = likelihoods.max() / likelihoods.sum()
        total, squares = total + probability, squares + probability * probability
    return total, squares

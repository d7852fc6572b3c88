"""The ceiling of generated images: against Bayes' rule written out, against closed forms, and its check."""

import math
from itertools import product

import numpy as np
import pytest
from examples.training import rebuilt, stored

from hpcai.data.ceiling import ceiling, trials
from hpcai.data.generated_images import formula as formula_of
from hpcai.formulas import score
from hpcai.kernels.images import TRIALS, Formula, Part, reference
from hpcai.record.check_declarations import CEILING
from hpcai.results.alterations import changed
from hpcai.results.checks import leak
from hpcai.workloads.ensemble import QUALITY as TOP_1


def formula(classes=6, symbols=5, grid=2, shifts=2, corrupted=0.5, relabelled=0.0, seed=3):
    probabilities = (int(corrupted * 2**32), int(relabelled * 2**32))
    return Formula(seed, 5, 8, classes, symbols, 2, grid, shifts, *probabilities)


def likelihood(made, seen, code):
    """Likelihood of the symbols `seen`, int64[grid, grid], summed over all possible shifts."""
    wrong = made.corrupted / 2**32 / made.symbols
    right = 1 - made.corrupted / 2**32 + wrong
    shifted = (np.roll(code, (-down, -right_), (0, 1)) for down, right_ in product(range(made.shifts), repeat=2))
    return sum(math.exp(np.log(np.where(seen == cells, right, wrong)).sum()) for cells in shifted)


def bayes(made, count):
    """Probability that Bayes' rule gives its choice, and whether the choice is right, for each trial."""
    square = (made.grid, made.grid)
    codes = [reference.code(made, number).reshape(square) for number in range(made.classes)]
    for trial in range(count):
        shift = reference.below(made.shifts, reference.draw(made, Part.VIEW, TRIALS, trial, 1)[0, :2])
        seen = np.roll(reference.symbols(made, TRIALS, trial).reshape(square), -shift, (0, 1))
        likelihoods = [likelihood(made, seen, code) for code in codes]
        yield max(likelihoods) / sum(likelihoods), np.argmax(likelihoods) == trial % made.classes


@pytest.mark.parametrize("shifts", [1, 2])
def test_the_ceiling_is_the_accuracy_of_bayes_rule(monkeypatch, shifts):
    monkeypatch.setattr("hpcai.data.ceiling._MOST", 600)
    made = formula(shifts=shifts, grid=2)
    assert trials(made) == 600
    probabilities, hits = map(np.array, zip(*bayes(made, 600), strict=True))
    found = ceiling(made)
    assert found.quality == pytest.approx(probabilities.mean(), abs=1e-12)
    assert found.error == pytest.approx(probabilities.std() / math.sqrt(600), abs=1e-12)
    assert abs(hits.mean() - found.quality) < 4 * math.sqrt(0.25 / 600)  # as often as its probability says


def test_ceiling_without_any_signal_is_a_guess():
    found = ceiling(formula(classes=8, corrupted=1 - 2**-32))
    assert found.quality == pytest.approx(1 / 8, abs=1e-3)


def test_ceiling_without_noise_counts_distinct_codes():
    assert ceiling(formula(classes=4, symbols=64, corrupted=0.0, shifts=1)) == (1.0, 0.0)
    made = formula(classes=300, symbols=2, corrupted=0.0, shifts=1)
    codes = {tuple(reference.code(made, number)) for number in range(300)}
    # trials alternate between the classes; their numbers are not equal
    assert ceiling(made).quality == pytest.approx(len(codes) / 300, rel=0.02)


@pytest.mark.parametrize("classes", [2, 10, 1000])
def test_label_noise_lowers_the_ceiling(classes):
    kept, share = 0.75, 1 / classes
    clean, noisy = (ceiling(formula(classes=classes, relabelled=eta)) for eta in (0.0, 0.25))
    a = clean.quality
    assert noisy.quality == pytest.approx(a * (kept + 0.25 * share) + (1 - a) * 0.25 * share, abs=1e-12)
    assert noisy.error == pytest.approx(kept * clean.error)


def test_shifts_and_noise_lower_the_ceiling():
    values = [
        ceiling(formula(corrupted=noise, shifts=shifts)).quality for shifts, noise in ((1, 0.3), (2, 0.3), (2, 0.6))
    ]
    assert values == sorted(values, reverse=True) and values[0] - values[2] > 0.1


def test_ceilings_of_the_designed_sizes():
    small, large = ceiling(formula_of(10, 32, 1)), ceiling(formula_of(1000, 224, 1))
    assert small.quality == pytest.approx(0.82, abs=1e-3)
    assert 0.79 < large.quality < 0.83 and large.error < 0.004
    assert large == ceiling(formula_of(1000, 224, 1))
    assert trials(formula_of(65536, 1024, 1)) == 500


def test_standard_errors_above_by_hand():
    assert score.above_ceiling(TOP_1, 0.9, 0.8, 0.0, 1600) == pytest.approx(10.0)
    assert score.above_ceiling(TOP_1, 0.9, 0.8, 0.01 * math.sqrt(3), 1600) == pytest.approx(5.0)
    assert score.above_ceiling(TOP_1, 0.8, 0.8, 0.0, 1600) == score.above_ceiling(TOP_1, 0.2, 0.8, 0.1, 1600) == 0.0
    assert score.above_ceiling(TOP_1, 1.0, 0.0, 0.0, 100) == score.LARGEST
    assert math.isfinite(score.above_ceiling(TOP_1, 1.0, -3.0, 0.0, 100))  # altered files must not stop a verification


@pytest.mark.parametrize(
    ("correct", "best_member", "verdict"),
    [(1600, 1600, "PASSED"), (1689, 1600, "PASSED"), (1691, 1600, "FAILED"), (1600, 1691, "FAILED")],
)
def test_quality_above_the_ceiling_fails(correct, best_member, verdict):
    changes = {"dataset.ceiling": 0.8, "dataset.ceiling_error": 0.001, "dataset.validation_samples": 2000}
    changes |= {"ensemble.correct": correct, "members.max": best_member}
    entry = rebuilt(stored("ensemble")[0], *(changed(f"raw.{path}", value) for path, value in changes.items())).entry
    (found,) = (check for check in entry.checks if check.name == CEILING.name)
    assert (found.verdict, found.limit) == (verdict, 5)


def test_real_data_have_no_ceiling():
    found = leak(TOP_1, stored("ensemble")[0].entry.raw.dataset, 1.0, 2000)
    assert (found.verdict, found.value) == ("NOT CHECKED", None)

"""The recipe of a training, made from the KEYs of the input."""

from dataclasses import replace

import pytest

from hpcai.inputfile import parse, shipped_text
from hpcai.train.recipe import Recipe
from hpcai.update_rules.sgd import Sgd

SETTINGS = {
    "BATCH": 24,
    "DEGREE": 3,
    "EPOCHS": 7,
    "WARMUP": 0.5,
    "EVALUATE": 3,
    "LEARNRATE": 0.2,
    "SCHEDULE": "linear",
    "SCALING": "linear",
    "OPTIMISER": "sgd",
    "MOMENTUM": 0.75,
    "DECAY": 0.001,
    "SMOOTHING": 0.05,
}


def test_each_key_reaches_its_field() -> None:
    rule = Sgd(decay=0.001, momentum=0.75)
    assert Recipe.of(SETTINGS) == Recipe(24, 3, 7, 0.5, 3, 0.2, "linear", "linear", rule, 0.05)


def test_the_shipped_input_gives_a_recipe() -> None:
    trained = [case for case in parse(shipped_text()).cases(2) if case.workload == "ensemble"]
    assert len(trained) == 2
    for case in trained:
        recipe = Recipe.of(case.settings)
        assert (recipe.batch, recipe.degree, recipe.epochs) == (case["BATCH"], case["DEGREE"], case["EPOCHS"])


def test_without_evaluate_every_epoch_is_validated() -> None:
    assert Recipe.of({name: value for name, value in SETTINGS.items() if name != "EVALUATE"}).evaluate_every == 1


def test_without_smoothing_labels_are_not_changed() -> None:
    assert Recipe.of({name: value for name, value in SETTINGS.items() if name != "SMOOTHING"}).smoothing == 0


def test_a_key_that_is_missing_is_an_error() -> None:
    for key in {*SETTINGS} - {"EVALUATE", "SMOOTHING"}:
        with pytest.raises(KeyError, match=key):
            Recipe.of({name: value for name, value in SETTINGS.items() if name != key})


def test_the_peak_rate_scales_with_the_global_batch() -> None:
    recipe = Recipe.of(SETTINGS)
    assert recipe.peak_rate == pytest.approx(0.2 * 72 / 256)
    assert replace(recipe, batch=256, degree=1).peak_rate == pytest.approx(0.2)
    assert replace(recipe, degree=6).peak_rate == pytest.approx(2 * recipe.peak_rate)
    assert replace(recipe, batch=48).peak_rate == pytest.approx(2 * recipe.peak_rate)
    assert replace(recipe, degree=12, scaling="sqrt").peak_rate == pytest.approx(0.2 * (24 * 12 / 256) ** 0.5)
    assert replace(recipe, scaling="none").peak_rate == 0.2


@pytest.mark.parametrize(
    ("every", "epochs", "expected"), [(3, 7, [3, 6, 7]), (1, 3, [1, 2, 3]), (9, 4, [4]), (2, 4, [2, 4])]
)
def test_validation_follows_every_so_many_epochs_and_the_last(every: int, epochs: int, expected: list[int]) -> None:
    recipe = replace(Recipe.of(SETTINGS), evaluate_every=every, epochs=epochs)
    assert [epoch for epoch in range(1, epochs + 1) if recipe.evaluates(epoch)] == expected

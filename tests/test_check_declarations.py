"""Declared checks: a value and a limit give the verdict, and a value that is not a number never passes."""

import math

import pytest

from hpcai.record.check_declarations import CEILING, DISAGREEMENT, RESIDUAL, TRAINING_CHECKS
from hpcai.record.entry import Check


@pytest.mark.parametrize("value", [math.nan, math.inf, 16.000001])
def test_a_value_beyond_the_limit_fails(value: float) -> None:
    assert RESIDUAL.of(value, 16.0).verdict == "FAILED"


def test_a_value_at_the_limit_passes() -> None:
    assert RESIDUAL.of(16.0, 16.0) == Check(name=RESIDUAL.name, value=16.0, limit=16.0, verdict="PASSED")
    assert RESIDUAL.of(-math.inf, 16.0).verdict == "PASSED"


def test_a_limit_that_is_a_key_has_to_be_given() -> None:
    with pytest.raises(AssertionError, match="KEY"):
        RESIDUAL.of(1.0)


def test_a_limit_that_must_be_exceeded() -> None:
    assert [DISAGREEMENT.of(value).verdict for value in (0.0, math.nan, 1e-9)] == ["FAILED", "FAILED", "PASSED"]


def test_a_check_without_a_value_is_not_checked() -> None:
    assert CEILING.not_checked() == Check(name=CEILING.name, value=None, limit=5.0, verdict="NOT CHECKED")


def test_checks_have_different_names() -> None:
    names = [check.name for check in TRAINING_CHECKS]
    assert len({*names}) == len(names)

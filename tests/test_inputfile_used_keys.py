"""KEYs that only some values of another KEY use: refused with others, unless they have their default."""

import pytest
from test_inputfile import SMALL
from test_inputfile_refused import refusal

from hpcai.inputfile import parse


@pytest.mark.parametrize(
    ("optimisers", "line", "says"),
    [
        ("lars sgd", "0.5 TRUST", "TRUST 0.5 has no effect with OPTIMISER sgd; allowed: OPTIMISER lars, or TRUST"),
        ("lamb", "0.5 MOMENTUM", "MOMENTUM 0.5 has no effect with OPTIMISER lamb; allowed: OPTIMISER sgd or lars"),
        ("adagrad", "0.9 0.99 BETA1", "BETA1 0.99 has no effect with OPTIMISER adagrad; allowed: OPTIMISER adam or"),
        ("lars adam", "1e-3 EPSILON", "EPSILON 0.001 has no effect with OPTIMISER lars"),
    ],
)
def test_a_value_that_the_optimiser_does_not_use_is_refused(optimisers: str, line: str, says: str) -> None:
    text = f"{SMALL}{optimisers} OPTIMISER\n"
    message = refusal(f"{text}{line}\n")
    assert f"line 12: {line}" in message and says in message
    for used in ("0.001 TRUST", "0.875 MOMENTUM", "0.9 BETA1", "0 EPSILON"):
        parse(f"{text}{used}\n")

"""What the tests need of a machine: where they are to be complete its absence is a failure, elsewhere a loud skip."""

import os
from typing import NoReturn

import pytest

COMPLETE = "HPCAI_TEST_COMPLETE"


def missing(what: str) -> NoReturn:
    """The test cannot be run for want of something that continuous integration has."""
    said = [name for name in (COMPLETE, "CI") if os.environ.get(name)]
    if said:
        pytest.fail(f"{what}; a failure, for {said[0]} is set", pytrace=False)
    pytest.skip(what)

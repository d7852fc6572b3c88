"""Requirements of the tests on a machine: without them tests fail where all have to run, elsewhere they are skipped."""

import os
from typing import NoReturn

import pytest

COMPLETE = "HPCAI_TEST_COMPLETE"
WITHOUT = "HPCAI_TEST_WITHOUT"  # what continuous integration could not install, separated by blanks


def missing(what: str, name: str = "") -> NoReturn:
    """The test cannot run, because something is missing that continuous integration has, or tried to install."""
    if name in os.environ.get(WITHOUT, "").split():
        pytest.skip(what)
    said = [name for name in (COMPLETE, "CI") if os.environ.get(name)]
    if said:
        pytest.fail(f"{what}; a failure, for {said[0]} is set", pytrace=False)
    pytest.skip(what)

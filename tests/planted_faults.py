"""The planted faults: every test that breaks or alters something on purpose, by its id; `make faults` prints them.

The difference of two such lists shows the planted faults that a change of the tests removes.
"""

import re
import sys

import pytest

# Words in the name of a file or a function: what a test does to a program, a result or a file, or has to detect.
WORDS = (
    "alter", "breaks", "broken", "cannot_be", "changed", "contradict", "damage", "detected", "detects", "dies",
    "diverge", "fail", "fault", "flip", "forg", "hostile", "illegal", "invent", "killed", "lack", "leak", "lost",
    "missing", "nonsense", "refus", "sudden", "twice", "violated", "violates", "wrong",
)  # fmt: skip
NAMED = re.compile("|".join(WORDS))


def is_fault(test: str) -> bool:
    """Whether the name of a test's file or function, not a parameter, says that it plants a fault."""
    return NAMED.search(test.partition("[")[0]) is not None


class Listing:
    """Prints the tests that plant faults in place of running any."""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        print("\n".join(sorted(item.nodeid for item in session.items if is_fault(item.nodeid))))


if __name__ == "__main__":
    options = ["--collect-only", "-p", "no:terminal", "-o", "addopts=", "-m", "not network"]
    sys.exit(pytest.main([*options, *sys.argv[1:]], plugins=[Listing()]))

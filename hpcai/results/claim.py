"""Claims: properties of raw measurements that follow from input, seed and network.

A violation means an altered result.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from hpcai.inputfile import Case
from hpcai.record.machine import Environment
from hpcai.results.alterations import Alteration


@dataclass(frozen=True)
class Subject:
    """The subject of claims: an entry of a result, or the measurements of a test that was broken off."""

    case: Case
    entry: Any
    environment: Environment


@dataclass(frozen=True)
class Claim:
    """One claim with the counterexample that a test plays.

    counterexample: alters the JSON of an entry in place so that this claim is broken. example: the name of the entry
    that it is played on (tests/examples), empty for the workload's plain one.
    """

    text: str
    holds: Callable[[Subject], bool]
    counterexample: Alteration
    example: str = ""


Claims = tuple[tuple[Claim, ...], ...]  # later ones may rely on earlier ones


def violated(claims: Claims, subject: Subject) -> Iterator[str]:
    """Texts of the violated claims; of later groups only if all earlier groups hold."""
    for group in claims:
        found = [claim.text for claim in group if not claim.holds(subject)]
        yield from found
        if found:
            return

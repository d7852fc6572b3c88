"""Eligibility of a result for ranking: VALID, UNOFFICIAL or INVALID, with all reasons.

Independent of the quality reached.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpcai.formulas.official_rules import IMAGES, MOST_ERROR, SEARCHES, OfficialRules
from hpcai.record.record import Status

VALID: Status = "VALID"
UNOFFICIAL: Status = "UNOFFICIAL"
INVALID: Status = "INVALID"
SEVERITY = (VALID, UNOFFICIAL, INVALID)

LEAST_BITS = 16
LEAST_SECONDS = 3600
SEARCH = {
    "epochs": SEARCHES.epochs,
    "network": SEARCHES.network,
    "variant": SEARCHES.variant,
    "strategy": "bayes",
    "weights": "inherited",
}
Rule = tuple[bool, str]  # whether it is met, and the reason if not
FAILED = "checks FAILED, official PASSED"


@dataclass(frozen=True)
class Eligibility:
    """Status of a result and its reasons; VALID has none."""

    status: Status
    reasons: tuple[str, ...]


NOTHING = Eligibility(INVALID, ("no training test, so there is nothing to rank",))
UNVERIFIED = Eligibility(INVALID, ("the result does not verify",))


def table(passed: bool) -> Eligibility:
    """Eligibility of a table of kernels or collectives: never ranked, but its checks must have passed."""
    return Eligibility(VALID, ()) if passed else Eligibility(INVALID, (FAILED,))


def without_rules(passed: bool) -> Eligibility:
    """Eligibility of a test of a workload that has no official rules."""
    return Eligibility(UNOFFICIAL, ("workload without official rules",)) if passed else Eligibility(INVALID, (FAILED,))


def official(facts: Mapping[str, Any], of: OfficialRules = IMAGES) -> Eligibility:
    """Eligibility of a test that trains, by HPC AI500's rules (epochs, target, n, precision).

    `facts`: dataset (its name), original (bool: the dataset's own images, unchanged), classes, resolution (rows and
    columns of a sample), network and variant (as the KEYs have them), samples (training samples of one epoch),
    validation (samples; only where there is a rule for them), epochs, target (top-1, mAP, bits per byte), penalty (n
    of Valid FLOPS), bits (of the compute precision), passed (bool: every check), completed (bool: not broken off). A
    missing fact raises KeyError. Same on every rank that has the same facts.
    """
    penalty = facts["penalty"]
    additional = (penalty == of.penalty, f"penalty {shown(penalty)}, official {of.penalty:g}")
    return _eligibility(facts, of, [additional], _settings_rules(facts, of))


def search_eligibility(facts: Mapping[str, Any]) -> Eligibility:
    """Eligibility of a test of `nas`, by AIPerf's rules (error, running time, precision; its Table IV).

    `facts`: as for `official`, but no target and no penalty; strategy, weights and replay
    (as the KEYs have them), seconds (of the search), error (of the best trial). A fact that is missing raises KeyError.
    """
    replayed = str(facts["replay"]) not in ("off", "rounds")
    error, seconds = facts["error"], facts["seconds"]
    rules = [
        *(
            (facts[name] == expected, f"{name} {shown(facts[name])}, official {expected}")
            for name, expected in SEARCH.items()
        ),
        _resolution(facts, IMAGES),
        (not replayed, "replay of a recorded search, official a search"),
        (_is_number(error) and 0 <= error <= MOST_ERROR, f"error {shown(error)}, official at most {MOST_ERROR}"),
        (
            _is_number(seconds) and seconds >= LEAST_SECONDS,
            f"seconds {shown(seconds)}, official at least {LEAST_SECONDS}",
        ),
    ]
    return _eligibility(facts, IMAGES, [], rules)


def _eligibility(
    facts: Mapping[str, Any], of: OfficialRules, additional: Sequence[Rule], settings: Sequence[Rule]
) -> Eligibility:
    """Eligibility by general rules, the workload's rules and its settings' rules.

    On other data the latter give UNOFFICIAL.
    """
    foreign, departures = _reasons(_dataset_rules(facts, of)), _reasons(settings)
    broken = _reasons(_general_rules(facts, additional)) + (() if foreign else departures)
    elsewhere = foreign + departures if foreign else ()
    status = INVALID if broken else UNOFFICIAL if elsewhere else VALID
    return Eligibility(status, broken + elsewhere)


def with_assumed_nodes(found: Eligibility, ranks_per_node: int | None) -> Eligibility:
    """A test whose nodes are not hosts but so many ranks each is never VALID; None: they are hosts."""
    if ranks_per_node is None:
        return found
    reasons = (*found.reasons, f"nodes of {ranks_per_node} ranks assumed, official hosts")
    return Eligibility(UNOFFICIAL if found.status == VALID else found.status, reasons)


def with_lost_groups(found: Eligibility, lost: int, groups: int) -> Eligibility:
    """A test that went on without some of its groups is INVALID."""
    if not lost:
        return found
    return Eligibility(INVALID, (*found.reasons, f"models {groups - lost} of {groups}, official all"))


def worst(eligibilities: Iterable[Eligibility]) -> Eligibility:
    """Eligibility of a run: the worst status of its tests, the reasons of the worst first, without duplicates."""
    ordered = sorted(eligibilities, key=lambda eligibility: SEVERITY.index(eligibility.status), reverse=True)
    if not ordered:
        return NOTHING
    return Eligibility(
        ordered[0].status, tuple(dict.fromkeys(reason for eligibility in ordered for reason in eligibility.reasons))
    )


def _reasons(rules: Iterable[Rule]) -> tuple[str, ...]:
    return tuple(reason for kept, reason in rules if not kept)


def _general_rules(facts: Mapping[str, Any], additional: Sequence[Rule]) -> Sequence[Rule]:
    """Rules that hold for any data. Each tests for the allowed value, so that NaN or a string violates it."""
    bits = facts["bits"]
    return (
        (facts["completed"] is True, "run broken off, official completed"),
        (facts["passed"] is True, FAILED),
        *additional,
        (_is_number(bits) and bits >= LEAST_BITS, f"precision {shown(bits)} bits, official at least {LEAST_BITS}"),
    )


def _dataset_rules(facts: Mapping[str, Any], of: OfficialRules) -> Sequence[Rule]:
    """Rules on the dataset: violated, the result is UNOFFICIAL."""
    named = facts["dataset"] == of.dataset
    classes = facts["classes"]
    return (
        (named, f"dataset {shown(facts['dataset'])}, official {of.dataset}"),
        (not named or classes == of.classes, f"classes {shown(classes)}, official {of.classes}"),
        (not named or facts["original"] is True, f"dataset {of.dataset} altered, official {of.dataset} unaltered"),
        _within("samples", facts["samples"], of.samples),
        *((_within("validation samples", facts["validation"], of.validation),) if of.validation else ()),
    )


def _within(what: str, samples: Any, bounds: tuple[int, int]) -> Rule:
    least, most = bounds
    right = f"{least}" if least == most else f"{least} to {most}"
    return _is_number(samples) and least <= samples <= most, f"{what} {shown(samples)}, official {right}"


def _settings_rules(facts: Mapping[str, Any], of: OfficialRules) -> Sequence[Rule]:
    """Rules on settings: violated, the result is INVALID on the official data and UNOFFICIAL on others."""
    return (
        *(
            (facts[name] == getattr(of, name), f"{name} {shown(facts[name])}, official {getattr(of, name)}")
            for name in ("network", "variant")
        ),
        _resolution(facts, of),
        (facts["epochs"] == of.epochs, f"epochs {shown(facts['epochs'])}, official {of.epochs}"),
        (facts["target"] == of.target, f"target {shown(facts['target'])}, official {shown(of.target)}"),
    )


def _resolution(facts: Mapping[str, Any], of: OfficialRules) -> Rule:
    """Rule on the rows and columns of a sample of the official data; other data have others."""
    named = facts["dataset"] == of.dataset
    found, right = facts["resolution"], "x".join(map(str, of.resolution))
    text = "x".join(map(shown, found)) if isinstance(found, tuple) else shown(found)
    return not named or found == of.resolution, f"resolution {text}, official {right}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def shown(value: object) -> str:
    """The value in fixed point or text.

    At most 40 printable ASCII characters, never the letters that open a result row.
    """
    text = f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    plain = "".join(letter if " " < letter <= "~" else "?" for letter in text[:40])
    return plain.replace("WR", "W.R")

"""May a result be ranked: VALID, UNOFFICIAL or INVALID, with every reason. The quality that was reached is none."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

VALID = "VALID"
UNOFFICIAL = "UNOFFICIAL"
INVALID = "INVALID"
SEVERITY = (VALID, UNOFFICIAL, INVALID)

DATASET = "imagenet"
SAMPLES = 1_281_167
EPOCHS = 90
TARGET = 0.763
PENALTY = 5
LEAST_BITS = 16
MOST_ERROR = 0.3
LEAST_SECONDS = 3600
SEARCH = {"epochs": 60, "network": "resnet50", "variant": "v1", "strategy": "bayes", "weights": "inherited"}
Rule = tuple[bool, str]  # whether it was kept, and what is said if not
FAILED = "checks FAILED, official PASSED"


@dataclass(frozen=True)
class Audit:
    """A status and what it rests on; VALID has no reasons."""

    status: str
    reasons: tuple[str, ...]


NOTHING = Audit(INVALID, ("no training test, so there is nothing to rank",))


def table(passed: bool) -> Audit:
    """The verdict on a table of kernels or collectives: never ranked, but every result needs its arithmetic right."""
    return Audit(VALID, ()) if passed else Audit(INVALID, (FAILED,))


def official(facts: Mapping[str, Any]) -> Audit:
    """The verdict on one test of `ensemble`, by HPC AI500's rules for images (epochs, target, n, precision).

    `facts`: dataset (its name), original (bool: the dataset's own pictures, unchanged), samples (training samples of
    one epoch), epochs, target (top-1), penalty (n of Valid FLOPS), bits (of the compute precision), passed (bool:
    every check), completed (bool: not broken off). A fact that is missing raises KeyError. Same on every rank that
    has the same facts.
    """
    penalty = facts["penalty"]
    own = (penalty == PENALTY, f"penalty {_shown(penalty)}, official {PENALTY}")
    return _found(facts, [own], _departures(facts))


def searched(facts: Mapping[str, Any]) -> Audit:
    """The verdict on one test of `nas`, by AIPerf's rules (error, running time, precision; its Table IV).

    `facts`: as for `official`, but no target and no penalty; network and variant, strategy, weights and replay
    (as the KEYs have them), seconds (of the search), error (of the best trial). A fact that is missing raises KeyError.
    """
    replayed = str(facts["replay"]) not in ("off", "rounds")
    error, seconds = facts["error"], facts["seconds"]
    rules = [
        *((facts[name] == told, f"{name} {_shown(facts[name])}, official {told}") for name, told in SEARCH.items()),
        (not replayed, "replay of a recorded search, official a search"),
        (_is_number(error) and 0 <= error <= MOST_ERROR, f"error {_shown(error)}, official at most {MOST_ERROR}"),
        (
            _is_number(seconds) and seconds >= LEAST_SECONDS,
            f"seconds {_shown(seconds)}, official at least {LEAST_SECONDS}",
        ),
    ]
    return _found(facts, [], rules)


def _found(facts: Mapping[str, Any], own: Sequence[Rule], settings: Sequence[Rule]) -> Audit:
    """Rules that hold on any data, the workload's `own` among them, and those of `settings`: on others a remark."""
    foreign, departures = _kept_not(_foreign(facts)), _kept_not(settings)
    broken = _kept_not(_broken(facts, own)) + (() if foreign else departures)
    elsewhere = foreign + departures if foreign else ()
    status = INVALID if broken else UNOFFICIAL if elsewhere else VALID
    return Audit(status, broken + elsewhere)


def worst(audits: Iterable[Audit]) -> Audit:
    """The verdict on a whole run: the worst of its tests, the reasons of the worst first, none twice."""
    ordered = sorted(audits, key=lambda audit: SEVERITY.index(audit.status), reverse=True)
    if not ordered:
        return NOTHING
    return Audit(ordered[0].status, tuple(dict.fromkeys(reason for audit in ordered for reason in audit.reasons)))


def _kept_not(rules: Iterable[Rule]) -> tuple[str, ...]:
    return tuple(reason for kept, reason in rules if not kept)


def _broken(facts: Mapping[str, Any], own: Sequence[Rule]) -> Sequence[Rule]:
    """Rules that hold whatever is trained on. Asked for what is right, so that a NaN or a word breaks them."""
    bits = facts["bits"]
    return (
        (facts["completed"] is True, "run broken off, official completed"),
        (facts["passed"] is True, FAILED),
        *own,
        (_is_number(bits) and bits >= LEAST_BITS, f"precision {_shown(bits)} bits, official at least {LEAST_BITS}"),
    )


def _foreign(facts: Mapping[str, Any]) -> Sequence[Rule]:
    """What makes the data others than the official ones."""
    named = facts["dataset"] == DATASET
    return (
        (named, f"dataset {_shown(facts['dataset'])}, official {DATASET}"),
        (not named or facts["original"] is True, f"dataset {DATASET} altered, official {DATASET} unaltered"),
        (facts["samples"] == SAMPLES, f"samples {_shown(facts['samples'])}, official {SAMPLES}"),
    )


def _departures(facts: Mapping[str, Any]) -> Sequence[Rule]:
    """Settings unlike the official ones: a broken rule on the official data, a remark on others."""
    return (
        (facts["epochs"] == EPOCHS, f"epochs {_shown(facts['epochs'])}, official {EPOCHS}"),
        (facts["target"] == TARGET, f"target {_shown(facts['target'])}, official {_shown(TARGET)}"),
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: object) -> str:
    """Fixed-point, at most 40 printable ASCII characters, never the letters that open a result row."""
    text = f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    plain = "".join(letter if " " < letter <= "~" else "?" for letter in text[:40])
    return plain.replace("WR", "W.R")

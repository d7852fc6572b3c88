"""May a result be ranked: VALID, UNOFFICIAL or INVALID, with every reason. The quality that was reached is none."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpcai.record.record import Status

VALID: Status = "VALID"
UNOFFICIAL: Status = "UNOFFICIAL"
INVALID: Status = "INVALID"
SEVERITY = (VALID, UNOFFICIAL, INVALID)

SAMPLES = 1_281_167  # of ImageNet
# Years of ExtremeWeather that train, and frames of a year. One more validates: 27 were made, 25 are on its page.
YEARS, FRAMES = (24, 26), (1456, 1460)
LEAST_BITS = 16
MOST_ERROR = 0.3
LEAST_SECONDS = 3600
SEARCH = {"epochs": 60, "network": "resnet50", "variant": "v1", "strategy": "bayes", "weights": "inherited"}


@dataclass(frozen=True)
class Official:
    """What a workload of HPC AI500 is officially run on and with; samples for training and validation, from and to."""

    dataset: str
    samples: tuple[int, int]
    epochs: int
    target: float
    penalty: float
    validation: tuple[int, int] | None = None  # None where the dataset's name says it


IMAGES = Official("imagenet", (SAMPLES, SAMPLES), epochs=90, target=0.763, penalty=5)
TRAINING = (YEARS[0] * FRAMES[0], YEARS[1] * FRAMES[1])
WEATHER = Official("extremeweather", TRAINING, epochs=50, target=0.35, penalty=10, validation=FRAMES)
Rule = tuple[bool, str]  # whether it was kept, and what is said if not
FAILED = "checks FAILED, official PASSED"


@dataclass(frozen=True)
class Audit:
    """A status and what it rests on; VALID has no reasons."""

    status: Status
    reasons: tuple[str, ...]


NOTHING = Audit(INVALID, ("no training test, so there is nothing to rank",))


def table(passed: bool) -> Audit:
    """The verdict on a table of kernels or collectives: never ranked, but every result needs its arithmetic right."""
    return Audit(VALID, ()) if passed else Audit(INVALID, (FAILED,))


def without_rules(passed: bool) -> Audit:
    """The verdict on a test of a workload that has no official rules."""
    return Audit(UNOFFICIAL, ("workload without official rules",)) if passed else Audit(INVALID, (FAILED,))


def official(facts: Mapping[str, Any], of: Official = IMAGES) -> Audit:
    """The verdict on one test of `ensemble` or `weather`, by HPC AI500's rules (epochs, target, n, precision).

    `facts`: dataset (its name), original (bool: the dataset's own pictures, unchanged), samples (training samples of
    one epoch), validation (samples; only where there is a rule for them), epochs, target (top-1, mAP), penalty (n of
    Valid FLOPS), bits (of the compute precision), passed (bool: every check), completed (bool: not broken off). A fact
    that is missing raises KeyError. Same on every rank that has the same facts.
    """
    penalty = facts["penalty"]
    own = (penalty == of.penalty, f"penalty {_shown(penalty)}, official {of.penalty:g}")
    return _found(facts, of, [own], _departures(facts, of))


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
    return _found(facts, IMAGES, [], rules)


def _found(facts: Mapping[str, Any], of: Official, own: Sequence[Rule], settings: Sequence[Rule]) -> Audit:
    """Rules that hold on any data, the workload's `own` among them, and those of `settings`: on others a remark."""
    foreign, departures = _kept_not(_foreign(facts, of)), _kept_not(settings)
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


def _foreign(facts: Mapping[str, Any], of: Official) -> Sequence[Rule]:
    """What makes the data others than the official ones."""
    named = facts["dataset"] == of.dataset
    return (
        (named, f"dataset {_shown(facts['dataset'])}, official {of.dataset}"),
        (not named or facts["original"] is True, f"dataset {of.dataset} altered, official {of.dataset} unaltered"),
        _within("samples", facts["samples"], of.samples),
        *((_within("validation samples", facts["validation"], of.validation),) if of.validation else ()),
    )


def _within(what: str, samples: Any, bounds: tuple[int, int]) -> Rule:
    least, most = bounds
    right = f"{least}" if least == most else f"{least} to {most}"
    return _is_number(samples) and least <= samples <= most, f"{what} {_shown(samples)}, official {right}"


def _departures(facts: Mapping[str, Any], of: Official) -> Sequence[Rule]:
    """Settings unlike the official ones: a broken rule on the official data, a remark on others."""
    return (
        (facts["epochs"] == of.epochs, f"epochs {_shown(facts['epochs'])}, official {of.epochs}"),
        (facts["target"] == of.target, f"target {_shown(facts['target'])}, official {_shown(of.target)}"),
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: object) -> str:
    """Fixed-point, at most 40 printable ASCII characters, never the letters that open a result row."""
    text = f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    plain = "".join(letter if " " < letter <= "~" else "?" for letter in text[:40])
    return plain.replace("WR", "W.R")

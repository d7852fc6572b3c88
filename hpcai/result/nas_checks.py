"""The checks of a search: what was measured, held against its limit; trials that failed are counted, and fail none."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from hpcai.formulas import score
from hpcai.formulas.precision import PRECISIONS
from hpcai.formulas.sample_fingerprint import expected_fingerprint
from hpcai.formulas.trial_schedule import number
from hpcai.inputfile import Case
from hpcai.result.checks import ELEMENTWISE, RESIDUAL, at_most, audited, beside_the_vendor, exact, leak

Json = dict[str, Any]

PRESERVATION = "max|child(x)-parent(x)|/(1e-10*max|parent(x)|)"
PRESERVED = 1e-10  # relative, in float64: what rounding makes of the same function
SKEW = 0.1  # seconds by which clocks of two ranks may differ, which begin when each leaves a barrier


def checks(case: Case, raw: Json, model: Mapping[int, int], initial: int) -> list[Json]:
    """`model`: operations of a training sample in each trial's network by rule `model`; `initial` in the first one."""
    trials, dataset = raw["trials"], raw["dataset"]
    deviation = max([raw["largest_deviation"], *(trial["deviation"] for trial in trials)])
    right = [entry["correct"] for trial in trials for entry in trial["curve"] if entry["correct"] is not None]
    return [
        at_most(RESIDUAL, raw["residuals"]["scaled"]["value"], case["RESIDUAL"]),
        at_most(ELEMENTWISE[PRECISIONS[case["PRECISION"]].rounded], raw["residuals"]["elementwise"]["value"], 1),
        *exact(raw),
        *beside_the_vendor(case, raw),
        at_most("all-reduce of integers: wrong elements", raw["wrong_sums"], 0),
        at_most("parameters and statistics: differing ranks", raw["differing_ranks"], 0),
        *audited(raw["audit"], "trials"),
        at_most(PRESERVATION, min(deviation / PRESERVED, score.LARGEST), 1),
        at_most("operations credited, not executed: samples", _unproven(raw, model, initial), 0),
        at_most("trials lost or doubled", lost_or_doubled(case, raw), 0),
        at_most("trials: times out of order", sum(map(_disorder, trials)), 0),
        at_most("validation samples not judged exactly once", _miscounted(raw), 0),
        leak(dataset, max(right, default=0) / dataset["validation_samples"], dataset["validation_samples"]),
    ]


def _unproven(raw: Json, model: Mapping[int, int], initial: int) -> float:
    """Trial by trial, and of their sum, the operations that only one of both accounts has; in samples."""
    told = sum(trial["executed_operations"] for trial in raw["trials"])
    apart = (
        abs(_claimed(trial) * model[trial["id"]] - trial["executed_operations"]) / model[trial["id"]]
        for trial in raw["trials"]
    )
    return sum(apart) + abs(told - raw["executed_operations"]) / initial


def _claimed(trial: Json) -> int:
    return sum(entry["samples"] + entry["skipped"] for entry in trial["curve"])


def lost_or_doubled(case: Case, raw: Json) -> int:
    """Trials granted and not recorded or the other way round, ids that stand twice, and ids of no worker and round."""
    numbers = Counter(trial["id"] for trial in raw["trials"])
    doubled = len(raw["trials"]) - len(numbers)
    strange = sum(
        trial["id"] != number(trial["round"], trial["worker"], case["GROUPS"])
        or not (trial["round"] >= 1 and 0 <= trial["worker"] < case["GROUPS"])
        for trial in raw["trials"]
    )
    return abs(raw["granted"] - len(raw["trials"])) + doubled + strange


def _disorder(trial: Json) -> int:
    """How often time goes back from given to started, along the curve, and to returned."""
    curve = [entry["seconds"] for entry in trial["curve"]]
    own = [trial["started"], *curve]  # by the clock of the group's leader; the others by the coordinator's
    ahead = sum(later < earlier for earlier, later in pairwise(own))
    between = (trial["given"], trial["started"]), (own[-1], trial["returned"]), (trial["given"], trial["returned"])
    return ahead + sum(later < earlier - SKEW for earlier, later in between)


def _miscounted(raw: Json) -> int:
    """Samples missing or counted twice in any validation, and one for each that judged others; one cut has none."""
    samples = raw["dataset"]["validation_samples"]
    expected = expected_fingerprint(samples)
    return sum(_wrong(entry, samples, expected) for entry in _entries(raw))


def _entries(raw: Json) -> Iterator[Json]:
    return (entry for trial in raw["trials"] for entry in trial["curve"])


def _wrong(entry: Json, samples: int, expected: int) -> int:
    if entry["correct"] is None:
        return int(entry["counted"]) + (entry["fingerprint"] != 0)
    return abs(entry["counted"] - samples) + (entry["fingerprint"] != expected)

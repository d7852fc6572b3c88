"""What is known of a test that ended early owes the input, the shards and the data: no more work than was asked for."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from hpcai.data.order import Shard
from hpcai.formulas.precision import PRECISIONS
from hpcai.inputfile import Case
from hpcai.machine.signals import ASKING
from hpcai.report.consistency import search
from hpcai.report.consistency import trials as trials_of
from hpcai.report.consistency.dataset import description_of
from hpcai.report.consistency.quality import evaluated, judged
from hpcai.report.consistency.shards import shards_of, trained
from hpcai.result import nas
from hpcai.result.judge import per_sample
from hpcai.result.nas_checks import SKEW

Json = dict[str, Any]

SIGNALS = "|".join(number.name for number in ASKING)


def broken_off(result: Json, cases: list[Case]) -> Iterator[str]:
    """The claims that a result breaks by what it says of a test that ended early; none if all hold."""
    found, ended = result["broken_off"], len(result["tests"]) + len(result["tables"])
    if found is None:  # the run may have been killed
        return
    if ended == len(cases) or found["index"] != ended + 1:
        yield "broken_off: the test after the last, of a run that is not complete"
        return
    case, raw = cases[ended], found["raw"]
    claims = {"broken_off: by a signal to a rank, or TIMELIMIT": _caused(found["cause"], case, result)}
    claims |= description_of(case, raw["dataset"]) if raw else {}
    yield from (claim for claim, holds in claims.items() if not holds)
    if raw and all(claims.values()):
        work = _searched(case, raw) if case.workload == "nas" else {**_work(case, raw), **_curve(case, raw)}
        yield from (claim for claim, holds in work.items() if not holds)


def _caused(cause: str, case: Case, result: Json) -> bool:
    limit, ranks = case["TIMELIMIT"], result["environment"]["ranks"]
    if signal := re.fullmatch(rf"(?:{SIGNALS}) on rank (0|[1-9][0-9]{{0,9}})", cause):
        return int(signal[1]) < int(ranks)
    return bool(limit > 0 and cause == f"TIMELIMIT of {limit:g} s")


def _work(case: Case, raw: Json) -> dict[str, bool]:
    samples, steps, seconds = raw["samples"] + raw["skipped_samples"], raw["steps"], raw["seconds"]
    shards, executed = shards_of(case, raw), samples * per_sample(case, raw)
    total = case["EPOCHS"] * sum(shard.steps for shard in shards)
    least = _least(case, shards, steps)
    most = min(_full(case, steps), trained(case, shards)) if len(shards) > 1 else least
    return {
        "broken_off: nothing trained in preparation": raw["where"] != "preparation" or steps == 0,
        "broken_off: steps <= EPOCHS x the steps of all models": 0 <= steps <= total,
        "broken_off: samples + skipped_samples, of the steps": least <= samples <= most,
        "broken_off: samples skipped in fp16 only": raw["skipped_samples"] == 0 or PRECISIONS[case["PRECISION"]].scaled,
        "broken_off: executed_operations, of the samples": raw["executed_operations"] == executed,
        "broken_off: seconds > 0 if, and only if, steps > 0": (seconds > 0) == (steps > 0),
    }


def _searched(case: Case, raw: Json) -> dict[str, bool]:
    """The trials that had come back: whole ones, and those that the end has cut."""
    trials = raw["trials"]
    identified = search.distinct(case, raw)
    if not all(identified.values()):
        return {f"broken_off: {claim}": holds for claim, holds in identified.items()}
    own = {name: sum(trial[name] for trial in trials) for name in ("executed_operations", "steps")}
    own |= {"samples": sum(map(nas.samples, trials)), "skipped_samples": sum(map(nas.skipped, trials))}
    return {
        **{f"broken_off: {name} = those of the trials": raw[name] == own[name] for name in own},
        "broken_off: seconds until the last trial": all(trial["returned"] <= raw["seconds"] + SKEW for trial in trials),
        **{f"broken_off: {claim}": holds for claim, holds in trials_of.trials(case, raw).items()},
    }


def _full(case: Case, steps: int) -> int:
    """Samples of so many steps, were all batches full."""
    return steps * int(case["BATCH"]) * int(case["DEGREE"])


def _least(case: Case, shards: list[Shard], steps: int) -> int:
    """The fewest samples that so many steps can have: as many of them as can be were the last of an epoch."""
    missing = [shard.steps * shard.batch - shard.samples for shard in shards]  # from the last batch of an epoch
    ends = [min(case["EPOCHS"], steps // shard.steps) for shard in shards]
    return _full(case, steps) - sum(end * lack for end, lack in zip(ends, missing, strict=True)) * int(case["DEGREE"])


def _curve(case: Case, raw: Json) -> dict[str, bool]:
    """The validation curve of the first model, as far as it had come."""
    entries = raw["curve"]
    epochs, seconds = [entry["epoch"] for entry in entries], [0.0, *(entry["seconds"] for entry in entries)]
    alive = [entry["epoch"] for entry in entries if entry["loss"] is not None]
    last = epochs[-1] if epochs else 0
    return {
        **judged(raw),
        "curve: of what the workload finds": all(
            ("average_precision" in entry) == (case.workload == "weather") for entry in entries
        ),
        "curve: of classes that the dataset has": all(_of_classes(case, raw, entry) for entry in entries),
        "curve: epochs that EVALUATE asks for, until the loss is not finite": epochs[: len(alive)] == alive
        and evaluated(case)[: len(alive)] == alive
        and len(epochs) - len(alive) <= 1,
        "curve: of epochs that were trained": last <= case["EPOCHS"]
        and last * shards_of(case, raw)[0].steps <= raw["steps"],
        "curve: time goes on": all(earlier < later for earlier, later in pairwise(seconds)),
        "curve: epochs go on": all(earlier < later for earlier, later in pairwise([0, *epochs])),
    }


def _of_classes(case: Case, raw: Json, entry: Json) -> bool:
    """Of a detector's entry: a precision from 0 to 1 of each class, or none where it has no true boxes."""
    found = entry.get("average_precision", [0.0] * raw["dataset"]["classes"])
    return len(found) == raw["dataset"]["classes"] and all(0 <= (value or 0) <= 1 for value in found)

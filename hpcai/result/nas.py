"""A search as it stands in the result file, made from its case, its raw measurements and the tests before it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import to_builtins

from hpcai import networks, opcount
from hpcai.formulas import aiperf, eligibility, score
from hpcai.formulas.aiperf import Work
from hpcai.formulas.precision import PRECISIONS
from hpcai.inputfile import Case
from hpcai.networks.graph import Graph
from hpcai.networks.lineage import lineage
from hpcai.record.trial import Trial, trials_of
from hpcai.result.judge import RULE, entry
from hpcai.result.nas_checks import checks
from hpcai.result.nas_scores import scores

Json = dict[str, Any]


@dataclass(frozen=True)
class Counted:
    """Operations of one sample in a trial's network: a training one by rule `model`, and both kinds by `aiperf`."""

    model: int
    aiperf: Work

    @classmethod
    def of(cls, graph: Graph) -> "Counted":
        return cls(opcount.count(graph, RULE).total, aiperf.work(graph))


def judge(case: Case, raw: Json, earlier: Sequence[Json], tables: Sequence[Json] = ()) -> Json:
    """One search as it stands in the result file; `earlier` are the tests before it.

    InputError where the morphisms of a trial do not fit its parent's network.
    """
    each = counted(case, raw)
    found = operations(case, raw, each)
    seconds = raw["seconds"] - raw["group_seconds"]["validation"]["min"]
    rate = score.flops(found["credited"], seconds)
    aiperf = {number: count.aiperf for number, count in each.items()}
    model = {number: count.model for number, count in each.items()}
    test = entry(
        case,
        raw,
        seconds,
        rate,
        found,
        checks(case, raw, model, found["per_sample"]),
        scores(case, raw, rate, found["credited"], aiperf, earlier),
    )
    rows = [_trial(trial, aiperf[trial.id]) for trial in trials_of(raw["trials"])]
    return {**test, "trials": rows, **_audit(case, test)}


def graphs(case: Case, raw: Json) -> dict[int, Graph]:
    """The network of each trial, by its id."""
    return lineage(initial(case, raw), trials_of(raw["trials"]))


def initial(case: Case, raw: Json) -> Graph:
    """The network that the search began with."""
    return networks.for_data(case.settings, raw["dataset"]["shape"], raw["dataset"]["classes"])


def counted(case: Case, raw: Json) -> dict[int, Counted]:
    """Operations of a sample in each trial's network, by its id; networks that several have are counted once."""
    known: dict[Graph, Counted] = {}
    found = graphs(case, raw)
    for graph in found.values():
        if graph not in known:
            known[graph] = Counted.of(graph)
    return {number: known[graph] for number, graph in found.items()}


def operations(case: Case, raw: Json, each: dict[int, Counted]) -> Json:
    """Operations by the headline rule: of a sample in the initial network, credited, skipped, executed over all trials.

    Skipped are those of steps that were left out because gradients overflowed: executed, but for nothing.
    """
    return {
        "rule": RULE,
        "per_sample": Counted.of(initial(case, raw)).model,
        "credited": sum(each[trial["id"]].model * samples(trial) for trial in raw["trials"]),
        "skipped": sum(each[trial["id"]].model * skipped(trial) for trial in raw["trials"]),
        "executed": raw["executed_operations"],
    }


def credited(case: Case, raw: Json) -> int:
    """Operations of the samples that were trained, by the headline rule; also of a search that ended early."""
    each = counted(case, raw)
    return sum(each[trial["id"]].model * samples(trial) for trial in raw["trials"])


def samples(trial: Json) -> int:
    """Training samples credited to a trial."""
    return sum(part["samples"] for part in trial["curve"])


def skipped(trial: Json) -> int:
    """Training samples of steps that were left out because gradients overflowed."""
    return sum(part["skipped"] for part in trial["curve"])


def _trial(trial: Trial, work: Work) -> Json:
    """A row of the table of trials; `ops` are its operations, training and validation, by rule `aiperf`."""
    shared = ("id", "worker", "round", "parent", "operation", "hyperparameters")
    times = ("given", "started", "returned")
    credits = [*aiperf.credits(trial.curve, work)]
    values = to_builtins(trial)
    return {
        **{name: values[name] for name in shared},
        "accuracy": trial.accuracy,
        "ops": sum(credit.training + credit.validation for credit in credits),
        **{name: values[name] for name in times},
        "verdict": trial.end,
    }


def _audit(case: Case, test: Json) -> Json:
    dataset = test["raw"]["dataset"]
    found = eligibility.searched(
        {
            "dataset": dataset["name"],
            "original": case["SAMPLES"] == 0,
            "samples": dataset["training_samples"],
            "epochs": case["EPOCHS"],
            "network": case["NETWORK"],
            "variant": case["VARIANT"],
            "strategy": case["STRATEGY"],
            "weights": case["INITIAL"],
            "replay": case["REPLAY"],
            "seconds": test["raw"]["seconds"],
            "error": 1 - test["scores"]["quality"],
            "bits": PRECISIONS[case["PRECISION"]].bits,
            "passed": test["verdict"] == "PASSED",
            "completed": True,
        }
    )
    return {"status": found.status, "reasons": list(found.reasons)}

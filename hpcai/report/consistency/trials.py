"""What each trial of a search owes the input, its parent and its shard of the data."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil, inf, log
from typing import Any

from hpcai.data.order import Shard
from hpcai.formulas import trial_schedule
from hpcai.formulas.precision import PRECISIONS
from hpcai.formulas.sample_fingerprint import expected_fingerprint
from hpcai.inputfile import Case
from hpcai.networks.digest import digest
from hpcai.networks.graph import Graph
from hpcai.networks.layers import Conv
from hpcai.networks.morphism import KERNEL_SIZES, Kernel, Widen
from hpcai.record.trial import COMPLETED, FAILED, trials_of
from hpcai.report.consistency.rounding import at_most
from hpcai.report.consistency.search import replayed
from hpcai.result import nas
from hpcai.result.nas_checks import SKEW
from hpcai.search.neighbours import FACTORS, FARTHEST

Json = dict[str, Any]

UNKNOWN = ("memory", "lost")  # ends that leave no account of the last steps
ROUGH = 1e-3  # share: outputs are rounded before the loss is taken
ANY = 2**31  # epochs: a PATIENCE without limit


@dataclass(frozen=True)
class Search:
    """A search and its networks."""

    case: Case
    raw: Json
    initial: Graph
    graphs: Mapping[int, Graph]
    trials: Mapping[int, Json]
    fingerprint: int

    @classmethod
    def of(cls, case: Case, raw: Json) -> "Search":
        trials = {trial["id"]: trial for trial in raw["trials"]}
        expected = expected_fingerprint(raw["dataset"]["validation_samples"])
        return cls(case, raw, nas.initial(case, raw), nas.graphs(case, raw), trials, expected)

    def shard(self, trial: Json) -> Shard:
        """What each rank of a trial's group trains on in an epoch."""
        samples = self.raw["dataset"]["training_samples"]
        return Shard(samples, 0, self.case["DEGREE"], trial["hyperparameters"]["batch"])


def trials(case: Case, raw: Json) -> dict[str, bool]:
    """All claims on all trials, by number of the trial."""
    search = Search.of(case, raw)
    marks = [digest(graph) for graph in search.graphs.values()]
    different = replayed(case) or len({*marks}) == len(marks)
    return {"trials: of different networks": different} | {
        f"trial {trial['id']}: {claim}": holds
        for trial in raw["trials"]
        for topic in TOPICS
        for claim, holds in topic(search, trial).items()
    }


def _descent(search: Search, trial: Json) -> dict[str, bool]:
    parent, case = search.trials.get(trial["parent"]), search.case
    first = trial["morphisms"][0]["operation"] if trial["morphisms"] else "initial"
    claims = {
        "operation: of its first morphism": trial["operation"] == first,
        "deviation: not negative, 0 of unchanged networks and fresh weights": trial["deviation"] >= 0
        and (trial["deviation"] == 0 or bool(trial["morphisms"] and case["INITIAL"] == "inherited")),
    }
    if parent is None or replayed(case):
        return claims
    lag = case["LAG"] if case["REPLAY"] == "rounds" else -inf
    return claims | {
        "parent: none that failed": parent["end"] not in FAILED,
        "parent: returned before": parent["returned"] <= trial["given"] + SKEW,
        "parent: of a round that REPLAY lets it know": parent["round"] < trial["round"] - lag,
    }


def _choices(search: Search, trial: Json) -> dict[str, bool]:
    """Hyper-parameters, and the limits of networks."""
    case, graph, early = search.case, search.graphs[trial["id"]], trial_schedule.warms_up(trial["round"])
    batch, kernel = trial["hyperparameters"]["batch"], trial["hyperparameters"]["kernel"]
    usual = case["BATCH"]
    least = max(2, usual // 2)  # where memory is short, also while a search warms up
    batches = {least, usual} if early else {least, usual, 2 * usual}
    added = {layer.name for layer in graph.layers} - {layer.name for layer in search.initial.layers}
    sides = [side for name, side in _convolutions(graph) if name in added and side in KERNEL_SIZES]
    convolutions, values = len(list(_convolutions(graph))), sum(graph.parameters.values())
    free = replayed(case) or not trial["morphisms"]
    return {
        "batch: of those that are searched": replayed(case) or batch in batches,
        "kernel: of those that are searched": replayed(case) or kernel in (KERNEL_SIZES[:1] if early else KERNEL_SIZES),
        "kernel: added convolutions are as large": replayed(case) or min(sides, default=kernel) >= kernel,
        "DEPTH": free or case["DEPTH"] == 0 or convolutions <= case["DEPTH"],
        "PARAMETERS": free or case["PARAMETERS"] == 0 or values <= case["PARAMETERS"],
    }


def _proposed(search: Search, trial: Json) -> dict[str, bool]:
    """Morphisms are as many, and widen as far, as a proposal's."""
    if replayed(search.case) or not trial["morphisms"]:
        return {}
    (typed,) = trials_of([trial])
    morphisms = typed.morphisms
    graph = search.graphs[typed.parent] if typed.parent is not None else search.initial
    factors = list[float]()
    for morphism in morphisms:
        if isinstance(morphism, Widen):
            channels = graph.shapes[morphism.layer][0]
            factors.append(morphism.channels / max(channels + 1, int(max(FACTORS) * channels)))
        graph = morphism.apply(graph)
    added = sum(layer.name not in search.initial.shapes for layer in graph.layers if isinstance(layer.op, Conv))
    return {
        "morphisms: as many as are proposed": len(morphisms) <= FARTHEST + added
        and sum(not isinstance(morphism, Kernel) for morphism in morphisms) <= FARTHEST,
        "morphisms: widen as far as is proposed": max(factors, default=0.0) <= 1,
    }


def _convolutions(graph: Graph) -> Iterator[tuple[str, int]]:
    for layer in graph.layers:
        if isinstance(layer.op, Conv):
            yield layer.name, layer.op.kernel[0]


def _epochs(search: Search, trial: Json) -> dict[str, bool]:
    case, curve, planned = search.case, trial["curve"], trial["planned_epochs"]
    stale, patience = _stale(trial), trial_schedule.patience(trial["round"], case["PATIENCE"] or ANY)
    cut = [entry["correct"] is None for entry in curve]
    sound = trial["end"] not in FAILED
    return {
        "planned_epochs: by EPOCHS and round": planned == trial_schedule.planned_epochs(trial["round"], case["EPOCHS"]),
        "curve: epoch by epoch": [entry["epoch"] for entry in curve] == [*range(1, len(curve) + 1)],
        "curve: not more than planned": len(curve) <= planned,
        "curve: cut at its end only": not any(cut[:-1]) and not (any(cut) and trial["end"] in COMPLETED),
        "curve: all planned epochs": trial["end"] != "planned" or len(curve) == planned,
        "patience: at its end": trial["end"] != "patience" or stale[-1:] >= [patience],
        "patience: not before": case["PATIENCE"] == 0 or max(stale[:-1], default=0) <= patience,
        "curve: losses of every epoch": not sound or all(map(_finite, curve)),
    }


def _stale(trial: Json) -> list[int]:
    """After each epoch, for how many the validation loss has not become smaller."""
    least, since, found = inf, 0, list[int]()
    for entry in trial["curve"]:
        loss = inf if entry["validation_loss"] is None else entry["validation_loss"]
        since = 0 if trial_schedule.improves(loss, least) else since + 1
        least = loss if since == 0 else least
        found.append(since)
    return found


def _finite(entry: Json) -> bool:
    """Whether an epoch that was judged tells both losses; one that was cut has no second one."""
    losses = (entry["loss"], entry["validation_loss"])
    if entry["correct"] is None:
        return losses[1] is None and (losses[0] is None or 0 <= losses[0] < inf)
    return all(loss is not None and 0 <= loss < inf for loss in losses)


def _work(search: Search, trial: Json) -> dict[str, bool]:
    """Samples and steps are those of the shard; what a trial that failed had begun is at most an epoch."""
    shard, curve, skipped = search.shard(trial), trial["curve"], nas.skipped(trial)
    whole, batch = shard.samples * shard.ranks, shard.batch * shard.ranks
    full = [entry["samples"] for entry in curve if entry["correct"] is not None]
    begun = sum(entry["samples"] for entry in curve if entry["correct"] is None)
    sound = trial["end"] not in UNKNOWN and not PRECISIONS[search.case["PRECISION"]].scaled
    steps = len(full) * shard.steps + ceil(begun / batch)
    return {
        "samples: an epoch has those of the shard": not sound or full == [whole] * len(full),
        "samples: not more than the epochs have": max([begun, *full]) <= whole
        and sum(full) + begun + skipped <= whole * len(curve),
        "samples: whole steps": not sound or begun == min(whole, ceil(begun / batch) * batch),
        "steps: of the samples": not sound or trial["steps"] == steps,
        "skipped_samples: in fp16 only": skipped == 0 or PRECISIONS[search.case["PRECISION"]].scaled,
    }


def _judgements(search: Search, trial: Json) -> dict[str, bool]:
    judged = [entry for entry in trial["curve"] if entry["correct"] is not None]
    samples = search.raw["dataset"]["validation_samples"]
    return {
        "curve: counted = validation_samples": all(entry["counted"] == samples for entry in judged),
        "curve: the fingerprint of all samples": all(entry["fingerprint"] == search.fingerprint for entry in judged),
        "curve: correct <= validation_samples": all(entry["correct"] <= samples for entry in judged),
        "curve: a loss that what was judged wrong explains": all(_costs(entry, samples) for entry in judged),
    }


def _costs(entry: Json, samples: int) -> bool:
    """Whether the mean cross-entropy is as large as it must be: what is judged wrong has a share of a half at most."""
    loss, wrong = entry["validation_loss"], samples - entry["correct"]
    return loss is None or loss >= (wrong / samples) * log(2) * (1 - ROUGH)


def _times(search: Search, trial: Json) -> dict[str, bool]:
    parts = sum(trial[f"{name}_seconds"] for name in ("training", "validation", "warmup"))
    sound, trained = trial["end"] not in FAILED, any(entry["samples"] for entry in trial["curve"])
    used = search.raw.get("memory")  # a search that was broken off tells none
    most = (1 + ROUGH) * max(used["peak_bytes"], used["device_peak_bytes"]) if used else inf
    return {
        "seconds: within the trial": at_most(parts, trial["returned"] - trial["started"] + SKEW),
        "seconds: until the last validation": trial["end"] not in COMPLETED
        or at_most(parts, trial["curve"][-1]["seconds"] - trial["started"] + SKEW),
        "seconds of training > 0 if there were steps": not sound or (trial["training_seconds"] > 0) == trained,
        "nbytes: of the weights at least, of the peak at most": not sound
        or sum(search.graphs[trial["id"]].parameters.values()) < trial["nbytes"] <= most,
    }


TOPICS: tuple[Callable[[Search, Json], dict[str, bool]], ...] = (
    _descent,
    _choices,
    _proposed,
    _epochs,
    _work,
    _judgements,
    _times,
)

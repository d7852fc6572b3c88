"""What the trials of a search owe each other and the input: each claim holds of a sound one, and each can be broken."""

import copy
from typing import Any

import pytest
from small_run import cases_of, judged
from synthetic_search import DEEPER, Change, all_of, put, searched, with_ensemble

from hpcai.report import consistency

Json = dict[str, Any]


def broken(change: Change, *settings: str) -> list[str]:
    """The claims that the made-up search breaks after a change."""
    result = searched(*settings)
    raw = result["tests"][0]["raw"]
    change(raw)
    return list(consistency.contradictions(cases_of(result)[0], raw))


def only(count: int) -> Change:
    """The first trials alone."""
    return lambda raw: raw.update(trials=raw["trials"][:count], granted=count)


def test_a_sound_search_breaks_no_claim() -> None:
    assert broken(lambda raw: None) == []
    (search,) = [test for test in with_ensemble()["tests"] if test["workload"] == "nas"]
    assert list(consistency.contradictions(cases_of(with_ensemble())[2], search["raw"])) == []


OF_ALL: list[tuple[str, Change]] = [
    ("training_samples = SAMPLES", put("dataset.training_samples", 199)),
    ("target: TARGET, or the dataset's own", put("target", 0.4)),
    ("trials: sorted by id, each once", lambda raw: raw["trials"].reverse()),
    ("trials: ids by group and round", put("trials.3.worker", 0)),
    ("trials: ids by group and round", put("trials.3.id", 40)),
    ("trials: rounds of a group follow one another", lambda raw: raw["trials"].pop(3)),
    ("granted = trials", put("granted", 8)),
    ("granted = trials", only(0)),
    ("residuals and audit: values >= 0", put("residuals.scaled.value", -1.0)),
    ("residuals and audit: values >= 0", put("audit.lost.value", -1.0)),
    ("audit: steps of the trials", put("audit.steps", 1000)),
    ("sharding, by BATCH", put("sharding", "by turns")),
    ("backend is none if, and only if, DEGREE = 1", put("backend", "gloo")),
    ("models_between_nodes: some, with several ranks", put("models_between_nodes", 1)),
    ("skipped_samples: in fp16 only", put("skipped_samples", 1)),
    ("probe: of other precisions than fp32", put("probe", {"fp32_seconds": 1.0, "seconds": 1.0, "converted": False})),
    ("samples = those of the trials", put("samples", 1)),
    ("skipped_samples = those of the trials", put("skipped_samples", 1)),
    ("steps = those of the trials", put("steps", 1)),
    ("executed_operations = those of the trials", put("executed_operations", 1)),
    ("largest_deviation: that of the trials", put("largest_deviation", 0.0)),
    ("largest_deviation: that of the trials", put("largest_deviation", 1.0)),
    ("retired_groups < GROUPS", put("retired_groups", 2)),
    ("retired_groups: each with the trial that it lost", put("trials.7.end", "lost")),
    ("retired_groups: each with the trial that it lost", put("retired_groups", 1)),
    ("trials: of different networks", all_of(put("trials.8.morphisms", []), put("trials.8.parent", 7))),
    ("seconds > 0", put("seconds", 0.0)),
    ("seconds: until the last trial returned", put("seconds", 6.0)),
    ("seconds: until the last trial returned", put("seconds", 6.9)),
    ("seconds: within phase search", put("phases.search", 6.5)),
    ("seconds: of phase search", put("phases.search", 17.5)),
    ("seconds: more than validation", put("group_seconds.validation.min", 7.0)),
    ("group_seconds: min <= mean <= max", put("group_seconds.idle.min", 6.0)),
    ("group_seconds idle: what the others leave", put("seconds", 6.9)),
    ("group_seconds training: the sums of the trials", put("group_seconds.training.mean", 2.0)),
    ("group_seconds validation: the sums of the trials", put("trials.0.validation_seconds", 0.2)),
    ("group_seconds warmup: the sums of the trials", put("group_seconds.warmup.max", 0.3)),
    ("trials: of a group one after the other", put("trials.2.started", 0.5)),
    ("ended_by: what was reached", put("ended_by", "trials")),
    ("ended_by: what was reached", put("ended_by", "rounds")),
    ("ended_by: what was reached", put("ended_by", "converged")),
    ("coordinator: requests for each trial", put("coordinator.requests", 17)),
    ("proposals: one for each trial", put("proposals.count", 8)),
    ("coordinator: mean wait <= longest", put("coordinator.wait_mean", 1.0)),
    ("coordinator: busy within the search", put("coordinator.busy_seconds", 10.0)),
    ("proposals: mean seconds <= longest", put("proposals.seconds_mean", 1.0)),
    ("memory: 0 < baseline_bytes", put("memory.baseline_bytes", 0)),
    ("memory: baseline_bytes < planned_bytes", put("memory.planned_bytes", 0)),
    ("memory: peak_bytes > 0", put("memory.peak_bytes", 0)),
    ("memory: device_peak_bytes only where accelerated", put("memory.device_peak_bytes", 1)),
    ("memory: samples of the dataset", put("memory.samples", 1)),
    ("staging if, and only if, STAGE is not none", put("phases.staging", 1.0)),
]


@pytest.mark.parametrize(("claim", "change"), OF_ALL)
def test_each_claim_on_all_trials_can_be_broken(claim: str, change: Change) -> None:
    assert claim in broken(change)


OF_EACH: list[tuple[str, Change]] = [
    ("trial 3: operation: of its first morphism", put("trials.2.operation", "widen")),
    ("trial 1: operation: of its first morphism", put("trials.0.operation", "widen")),
    ("trial 1: deviation: not negative, 0 of unchanged networks and fresh weights", put("trials.0.deviation", 1e-12)),
    ("trial 2: deviation: not negative, 0 of unchanged networks and fresh weights", put("trials.1.deviation", -1e-9)),
    ("trial 9: parent: none that failed", all_of(put("trials.8.parent", 8), put("trials.8.morphisms", []))),
    ("trial 6: parent: returned before", put("trials.5.given", 0.5)),
    ("trial 5: batch: of those that are searched", put("trials.4.hyperparameters.batch", 64)),
    ("trial 9: batch: of those that are searched", put("trials.8.hyperparameters.batch", 8)),
    ("trial 5: kernel: of those that are searched", put("trials.4.hyperparameters.kernel", 5)),
    ("trial 9: kernel: added convolutions are as large", put("trials.8.hyperparameters.kernel", 7)),
    ("trial 5: planned_epochs: by EPOCHS and round", put("trials.4.planned_epochs", 4)),
    ("trial 5: curve: epoch by epoch", put("trials.4.curve.1.epoch", 3)),
    ("trial 5: curve: not more than planned", put("trials.4.planned_epochs", 2)),
    ("trial 5: curve: cut at its end only", put("trials.4.curve.1.correct", None)),
    ("trial 5: curve: cut at its end only", put("trials.4.curve.2.correct", None)),
    ("trial 5: curve: all planned epochs", lambda raw: raw["trials"][4]["curve"].pop()),
    ("trial 9: curve: all planned epochs", put("trials.8.end", "planned")),
    ("trial 5: patience: at its end", put("trials.4.end", "patience")),
    ("trial 7: curve: losses of every epoch", put("trials.6.curve.1.validation_loss", None)),
    ("trial 7: curve: losses of every epoch", put("trials.6.curve.1.loss", None)),
    ("trial 7: curve: losses of every epoch", put("trials.6.curve.1.loss", -1.0)),
    ("trial 9: curve: losses of every epoch", put("trials.8.curve.1.validation_loss", 1.0)),
    ("trial 7: samples: an epoch has those of the shard", put("trials.6.curve.1.samples", 199)),
    ("trial 4: samples: not more than the epochs have", put("trials.3.curve.0.samples", 201)),
    ("trial 9: samples: whole steps", put("trials.8.curve.1.samples", 95)),
    ("trial 9: steps: of the samples", put("trials.8.steps", 18)),
    ("trial 1: skipped_samples: in fp16 only", put("trials.0.curve.0.skipped", 32)),
    ("trial 1: curve: counted = validation_samples", put("trials.0.curve.0.counted", 1999)),
    ("trial 1: curve: the fingerprint of all samples", put("trials.0.curve.0.fingerprint", 5)),
    ("trial 1: curve: correct <= validation_samples", put("trials.0.curve.0.correct", 2001)),
    ("trial 7: seconds: within the trial", put("trials.6.training_seconds", 3.0)),
    ("trial 7: seconds: until the last validation", put("trials.6.curve.3.seconds", 3.2)),
    ("trial 1: curve: a loss that what was judged wrong explains", put("trials.0.curve.0.validation_loss", 0.01)),
    ("trial 7: seconds of training > 0 if there were steps", put("trials.6.training_seconds", 0.0)),
    ("trial 7: nbytes: of the weights at least, of the peak at most", put("trials.6.nbytes", 0)),
    ("trial 7: nbytes: of the weights at least, of the peak at most", put("trials.6.nbytes", 2**40)),
    ("trial 6: morphisms: widen as far as is proposed", put("trials.5.morphisms.0.channels", 49)),
    ("trial 9: morphisms: as many as are proposed", put("trials.8.morphisms", [DEEPER] * 4)),
]


@pytest.mark.parametrize(("claim", "change"), OF_EACH)
def test_each_claim_on_a_trial_can_be_broken(claim: str, change: Change) -> None:
    assert claim in broken(change)


@pytest.mark.parametrize(
    ("claim", "setting"),
    [
        ("trial 3: DEPTH", "9 DEPTH"),
        ("trial 2: PARAMETERS", "1000 PARAMETERS"),
        ("trial 2: deviation: not negative, 0 of unchanged networks and fresh weights", "fresh INITIAL"),
        ("trial 3: parent: of a round that REPLAY lets it know", "rounds REPLAY"),
        ("at most TRIALS trials", "8 TRIALS"),
        ("at most ROUNDS rounds", "4 ROUNDS"),
        ("ended_by: what was reached", "60 DURATION"),
        ("trials cut by the end of the time only", "60 DURATION"),
    ],
)
def test_limits_of_the_input(claim: str, setting: str) -> None:
    assert claim in broken(lambda raw: None, setting)


def test_patience() -> None:
    """Of the first round 6 epochs: after 7 without a smaller loss it must have ended, and after fewer not."""

    def stale(epochs: int, end: str) -> Change:
        def change(raw: Json) -> None:
            trial = raw["trials"][0]
            trial["curve"] = [trial["curve"][0] | {"epoch": n} for n in range(1, epochs + 1)]
            trial["end"] = end

        return change

    def found(epochs: int, end: str) -> list[str]:
        return [claim for claim in broken(stale(epochs, end), "40 EPOCHS") if "patience" in claim]

    assert found(7, "patience") == found(7, "time") == found(8, "time") == []
    assert found(6, "patience") == ["trial 1: patience: at its end"]
    assert found(9, "patience") == ["trial 1: patience: not before"]


def test_a_group_that_died_tells_what_it_had_done() -> None:
    died = all_of(put("trials.7.end", "lost"), put("retired_groups", 1))
    assert broken(died) == []
    told = all_of(died, put("group_seconds.training.mean", 2.1))
    assert broken(told) == ["group_seconds training: the sums of the trials"]


def test_where_memory_is_short_a_smaller_batch_is_tried_in_any_round() -> None:
    found = broken(put("trials.4.hyperparameters.batch", 16))
    assert not [claim for claim in found if "searched" in claim]
    least = put("trials.8.hyperparameters.batch", 2)
    assert "trial 9: batch: of those that are searched" not in broken(least, "3 BATCH")


def test_a_recorded_search_owes_its_choices_to_the_record() -> None:
    result = searched()
    raw, case = result["tests"][0]["raw"], cases_of(result)[0]
    replayed = type(case)(case.index, case.workload, {**case.settings, "REPLAY": "file:history.jsonl", "DEPTH": 3})
    raw["trials"][4]["hyperparameters"]["kernel"] = 7
    assert list(consistency.contradictions(replayed, raw)) == []


def test_a_failed_search_may_contradict_itself(tmp_path: Any) -> None:
    from alterations import verified

    result = searched()
    result["tests"][0]["raw"] |= {"wrong_sums": 3, "ended_by": "trials", "sharding": ""}
    result = judged(result)
    assert result["tests"][0]["verdict"] == "FAILED" and verified(copy.deepcopy(result), tmp_path) == []

"""Altered searches violate claims about all trials and about one trial in several ways; sound ones violate none."""

from collections.abc import Callable
from typing import Any

import pytest
from alterations import verified
from examples.nas import EXAMPLES
from msgspec import ValidationError
from sample_records import altered
from small_run import rebuilt
from synthetic_search import BRANCH, DEEPER, searched

from hpcai.inputfile import Case
from hpcai.results.alterations import Alteration, changed, removed, together
from hpcai.results.assembly import violated_claims

Json = dict[str, Any]


def violated(alteration: Alteration, example: str = "", **settings: Any) -> list[str]:
    """The claims that a made-up search violates after its measurements and settings were altered."""
    subject = EXAMPLES[example]
    case = Case(subject.case.index, subject.case.workload, {**subject.case.settings, **settings})
    return violated_claims(case, altered(subject.entry, alteration), subject.environment)


def unaltered(entry: Json) -> None:
    """No alteration."""


def of_raw(change: Callable[[Json], object]) -> Alteration:
    """An alteration of the raw measurements."""

    def alter(entry: Json) -> None:
        change(entry["raw"])

    return alter


def put(path: str, value: Any) -> Alteration:
    return changed(f"raw.{path}", value)


def only(count: int) -> Alteration:
    """The first trials alone."""
    return of_raw(lambda raw: raw.update(trials=raw["trials"][:count], granted=count))


def test_a_sound_search_violates_no_claim() -> None:
    assert violated(unaltered) == []


OF_ALL: list[tuple[str, Alteration]] = [
    ("training_samples = SAMPLES", put("dataset.training_samples", 199)),
    ("target: TARGET, or the dataset's own", put("target", 0.4)),
    ("trials: sorted by number, each once", of_raw(lambda raw: raw["trials"].reverse())),
    ("trials: numbers by group and round", put("trials.3.worker", 0)),
    ("trials: numbers by group and round", put("trials.3.id", 40)),
    ("trials: rounds of a group follow one another", removed("raw.trials.3")),
    ("granted = trials", put("granted", 8)),
    ("granted = trials", only(0)),
    ("replay: steps of the trials", put("replay.steps", 1000)),
    ("sharding, by BATCH", put("sharding", "alternately")),
    ("backend is none if, and only if, DEGREE = 1", put("backend", "gloo")),
    ("work.between_nodes: of several ranks on several nodes", put("work.between_nodes", 1)),
    ("work.skipped_samples: with a loss scale only", put("work.skipped_samples", 1)),
    (
        "probe if, and only if, PRECISION is not fp32",
        put("probe", {"fp32_seconds": 1.0, "seconds": 1.0, "converted": False}),
    ),
    ("probe if, and only if, PRECISION is not fp32", put("phases.probe", 1.0)),
    ("wrong elements: counted in int8 only", put("residuals.wrong", {"value": 0, "where": "gemm"})),
    ("work.samples = those of the trials", put("work.samples", 1)),
    ("work.skipped_samples = those of the trials", put("work.skipped_samples", 1)),
    ("work.steps = those of the trials", put("work.steps", 1)),
    ("work.executed_operations = those of the trials", put("work.executed_operations", 1)),
    ("largest_deviation: that of the trials", put("largest_deviation", 0.0)),
    ("largest_deviation: that of the trials", put("largest_deviation", 1.0)),
    ("retired_groups: each with the trial that it lost", put("retired_groups", 2)),
    ("retired_groups: each with the trial that it lost", put("trials.7.end", "lost")),
    ("retired_groups: each with the trial that it lost", put("retired_groups", 1)),
    (
        "retired_groups: each with the trial that it lost",
        together(put("retired_groups", 2), put("trials.7.end", "lost"), put("trials.8.end", "lost")),
    ),
    ("trials: of different networks", together(put("trials.8.morphisms", []), put("trials.8.parent", 7))),
    ("seconds: until the last trial returned", put("seconds", 0.0)),
    ("seconds: until the last trial returned", put("seconds", 6.0)),
    ("seconds: until the last trial returned", put("seconds", 6.9)),
    ("group_seconds: sums over the trials, and the rest", put("group_seconds.validation.min", 7.0)),
    ("group_seconds: sums over the trials, and the rest", put("group_seconds.idle.min", 6.0)),
    ("group_seconds: sums over the trials, and the rest", put("seconds", 6.9)),
    ("group_seconds: sums over the trials, and the rest", put("group_seconds.training.mean", 2.0)),
    ("group_seconds: sums over the trials, and the rest", put("trials.0.validation_seconds", 0.2)),
    ("group_seconds: sums over the trials, and the rest", put("trials.6.training_seconds", 3.0)),
    ("group_seconds: sums over the trials, and the rest", put("group_seconds.warmup.max", 0.3)),
    ("ended_by: a limit that was reached", put("ended_by", "trials")),
    ("ended_by: a limit that was reached", put("ended_by", "rounds")),
    ("ended_by: a limit that was reached", put("ended_by", "converged")),
    ("ended_by: a limit that was reached", put("phases.search", 6.0)),
    ("coordinator: requests and proposals for each trial", put("coordinator.requests", 17)),
    ("coordinator: requests and proposals for each trial", put("proposals.count", 8)),
    ("memory: planned_bytes include the baseline, but on GPUs", changed("memory.planned_bytes", 0)),
    ("memory: device_peak_bytes only where the ranks compute on GPUs", changed("memory.device_peak_bytes", 1)),
    ("memory.data: samples of the dataset", changed("memory.data.samples", 1)),
    ("staging if, and only if, STAGE is not none", put("phases.staging", 1.0)),
    ("vendor_comparison if, and only if, KERNELS is not vendor", put("phases.vendor_comparison", 1.0)),
]


@pytest.mark.parametrize(("claim", "alteration"), OF_ALL)
def test_each_claim_about_all_trials_can_be_violated(claim: str, alteration: Alteration) -> None:
    assert claim in violated(alteration)


OF_EACH: list[tuple[str, Alteration]] = [
    ("trials: operation of the first morphism", put("trials.2.operation", "widen")),
    ("trials: operation of the first morphism", put("trials.0.operation", "widen")),
    ("trials: deviation 0 of unchanged networks", put("trials.0.deviation", 1e-12)),
    ("trials: deviation 0 of unchanged networks", put("trials.1.deviation", -1e-9)),
    ("trials: parents have not failed", together(put("trials.8.parent", 8), put("trials.8.morphisms", []))),
    ("trials: batch sizes that are searched", put("trials.4.hyperparameters.batch", 64)),
    ("trials: batch sizes that are searched", put("trials.8.hyperparameters.batch", 8)),
    ("trials: kernel sizes that are searched", put("trials.4.hyperparameters.kernel", 5)),
    ("trials: added convolutions as large as the kernel size", put("trials.8.hyperparameters.kernel", 7)),
    ("trials: planned_epochs by EPOCHS and round", put("trials.4.planned_epochs", 4)),
    ("trials: epochs in order", put("trials.4.curve.1.epoch", 3)),
    ("trials: all planned epochs and no more", put("trials.4.planned_epochs", 2)),
    ("trials: cut in their last epoch only", put("trials.4.curve.1.correct", None)),
    ("trials: cut in their last epoch only", put("trials.4.curve.2.correct", None)),
    ("trials: all planned epochs and no more", removed("raw.trials.4.curve.2")),
    ("trials: all planned epochs and no more", put("trials.8.end", "planned")),
    ("trials: ended by PATIENCE when it says", put("trials.4.end", "patience")),
    ("trials: losses of every epoch", put("trials.6.curve.1.validation_loss", None)),
    ("trials: losses of every epoch", put("trials.6.curve.1.loss", None)),
    ("trials: losses of every epoch", put("trials.8.curve.1.validation_loss", 1.0)),
    ("trials: samples of the shard", put("trials.6.curve.1.samples", 199)),
    ("trials: samples of the shard", put("trials.3.curve.0.samples", 201)),
    ("trials: samples of the shard", put("trials.8.curve.1.samples", 95)),
    ("trials: steps of the samples", put("trials.8.steps", 18)),
    ("work.skipped_samples = those of the trials", put("trials.0.curve.0.skipped", 32)),
    (
        "work.skipped_samples: with a loss scale only",
        together(put("trials.0.curve.0.skipped", 32), put("work.skipped_samples", 32)),
    ),
    ("trials: every validation sample, each once", put("trials.0.curve.0.counted", 1999)),
    ("trials: every validation sample, each once", put("trials.0.curve.0.fingerprint", 5)),
    ("trials: correct <= validation_samples", put("trials.0.curve.0.correct", 2001)),
    ("trials: validation losses as large as their errors make them", put("trials.0.curve.0.validation_loss", 0.01)),
    ("group_seconds: sums over the trials, and the rest", put("trials.6.training_seconds", 0.0)),
    ("trials: layers widened as far as by a proposal", put("trials.5.morphisms.0.channels", 49)),
    ("trials: as many morphisms as a proposal", put("trials.8.morphisms", [DEEPER] * 4)),
    ("trials: as many morphisms as a proposal", put("trials.8.morphisms", [DEEPER] * 3 + [BRANCH])),
]


@pytest.mark.parametrize(("claim", "alteration"), OF_EACH)
def test_each_claim_about_a_trial_can_be_violated(claim: str, alteration: Alteration) -> None:
    assert claim in violated(alteration)


REFUSED = ("residuals.scaled.value", "replay.lost.value", "trials.6.curve.1.loss", "trials.6.curve.1.validation_loss")


@pytest.mark.parametrize(
    ("path", "value"),
    [*((f"raw.{path}", -1) for path in REFUSED), ("memory.baseline_bytes", 0), ("memory.peak_bytes", 0)],
)
def test_values_that_records_refuse(path: str, value: int) -> None:
    with pytest.raises(ValidationError):
        violated(changed(path, value))


@pytest.mark.parametrize(
    ("claim", "key", "value"),
    [
        ("trials: DEPTH", "DEPTH", 9),
        ("trials: PARAMETERS", "PARAMETERS", 1000),
        ("trials: deviation 0 of unchanged networks", "INITIAL", "fresh"),
        ("trials: parents of rounds that REPLAY lets them use", "REPLAY", "rounds"),
        ("no more trials than TRIALS and ROUNDS", "TRIALS", 8),
        ("no more trials than TRIALS and ROUNDS", "ROUNDS", 4),
        ("ended_by: a limit that was reached", "DURATION", 60.0),
        ("trials cut by the end of the time only", "DURATION", 60.0),
        ("wrong elements: counted in int8 only", "PRECISION", "int8"),
        ("staging if, and only if, STAGE is not none", "STAGE", "local"),
        ("vendor_comparison if, and only if, KERNELS is not vendor", "KERNELS", "custom"),
        ("site_kernels if, and only if, KERNELS names a file", "KERNELS", "file:kernels.py"),
    ],
)
def test_limits_of_the_input_can_be_violated(claim: str, key: str, value: Any) -> None:
    assert claim in violated(unaltered, **{key: value})


def test_a_limit_ends_a_search_when_it_is_reached() -> None:
    for limits in ({"TRIALS": 9}, {"TRIALS": 10}, {"ROUNDS": 5}, {"ROUNDS": 6}):
        (key,), (value,) = limits, limits.values()
        by_count = put("ended_by", key.lower())
        assert violated(by_count, **limits) == []  # DURATION may have ended the last trials
        found = violated(by_count, **limits, DURATION=0.0)
        assert ("ended_by: a limit that was reached" in found) == (value in (6, 10)), limits


def test_a_trial_ends_when_its_patience_is_exhausted() -> None:
    """6 epochs of patience in the first round: after 7 without a smaller loss it must have ended, after fewer not."""

    def stale(epochs: int, end: str) -> Alteration:
        def change(raw: Json) -> None:
            trial = raw["trials"][0]
            trial["curve"] = [trial["curve"][0] | {"epoch": n} for n in range(1, epochs + 1)]
            trial["end"] = end

        return of_raw(change)

    def found(epochs: int, end: str) -> list[str]:
        return [claim for claim in violated(stale(epochs, end), EPOCHS=40) if "PATIENCE" in claim]

    assert found(7, "patience") == found(7, "time") == found(8, "time") == []
    assert found(6, "patience") == found(9, "patience") == ["trials: ended by PATIENCE when it says"]


def test_a_group_that_died_has_the_trials_it_returned() -> None:
    died = together(put("trials.7.end", "lost"), put("retired_groups", 1))
    assert violated(died) == []
    reported = together(died, put("group_seconds.training.mean", 2.1))
    assert violated(reported) == ["group_seconds: sums over the trials, and the rest"]


def test_a_smaller_batch_is_allowed_in_any_round_if_memory_is_short() -> None:
    searched_sizes = "trials: batch sizes that are searched"
    assert searched_sizes not in violated(put("trials.4.hyperparameters.batch", 16))
    for least, wrong in ((2, False), (1, True)):
        sizes = together(put("trials.*.hyperparameters.batch", 3), put("trials.8.hyperparameters.batch", least))
        assert (searched_sizes in violated(sizes, BATCH=3)) == wrong


def test_a_replayed_search_has_the_choices_of_its_record() -> None:
    other = put("trials.4.hyperparameters.kernel", 7)
    assert violated(other, REPLAY="file:history.jsonl", DEPTH=3) == []
    assert violated(other, DEPTH=3) != []


def test_a_failed_search_may_contradict_itself(tmp_path: Any) -> None:
    result = searched()
    result["tests"][0]["raw"] |= {"wrong_sums": 3, "ended_by": "trials", "sharding": ""}
    result = rebuilt(result)
    assert result["tests"][0]["verdict"] == "FAILED" and verified(result, tmp_path) == []

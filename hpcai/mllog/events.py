"""The events of an MLPerf log in the order of time (MLPerf Training and HPC, logging rules)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from mlperf_logging.mllog import constants

from hpcai.mllog.model import Model, Times, Trained
from hpcai.train.milestones import EPOCH, Interval

BENCHMARK = "hpcai_{}"  # of a section; MLPerf's own benchmarks have other names
LOGGED = {EPOCH: (constants.EPOCH_START, constants.EPOCH_STOP)}
EVALUATION = constants.EVAL_START, constants.EVAL_STOP
# Keys of an optimiser's hyper-parameters, as MLPerf's constants are made; of others the name follows opt_NAME.
HYPERPARAMETERS = {
    "beta1": "opt_{}_beta_1",
    "beta2": "opt_{}_beta_2",
    "momentum": "{}_opt_momentum",
    "trust": "{}_opt_trust_coefficient",
}


@dataclass(frozen=True)
class Event:
    """A line of a log; `at` is a reading of the clock."""

    at: float
    key: str
    value: Any = None
    kind: Literal["event", "start", "end"] = "event"
    metadata: Mapping[str, Any] = field(default_factory=dict)


def events(
    model: Model, times: Times, trainings: Sequence[Trained], system: Mapping[str, str]
) -> Iterator[Event]:
    """All events of a model; `system` is the system description of the job."""
    begun, ready = times.init
    started, stopped = times.run
    yield Event(begun, constants.INIT_START, kind="start")
    values = {**_submission(model, system), **_sizes(model), **_optimiser(model)}
    yield from (Event(begun, key, value) for key, value in values.items())
    yield Event(begun, "target_quality", model.target, metadata=_meaning(model))
    yield Event(ready, constants.INIT_STOP, kind="end")
    yield Event(started, constants.RUN_START, kind="start")
    for training in trainings:
        for interval in training.intervals:
            yield from _interval(interval, training)
    broken_off = any(training.broken_off for training in trainings)
    status = constants.SUCCESS if _reached(model, trainings) and not broken_off else constants.ABORTED
    yield Event(stopped, constants.RUN_STOP, kind="end", metadata={constants.STATUS: status})


def _reached(model: Model, trainings: Sequence[Trained]) -> bool:
    """Whether a validation reached the target."""
    qualities = (quality for training in trainings for quality in training.qualities.values())
    return any(model.of.reached(quality, model.target) for quality in qualities)


def _submission(model: Model, system: Mapping[str, str]) -> dict[str, Any]:
    return {
        constants.SUBMISSION_BENCHMARK: BENCHMARK.format(model.section),
        constants.SUBMISSION_DIVISION: system["division"],
        constants.SUBMISSION_ORG: system["submitter"] or "unknown",
        constants.SUBMISSION_PLATFORM: system["system_name"],
        constants.SUBMISSION_STATUS: constants.RESEARCH,
        constants.CACHE_CLEAR: False,  # this program clears no caches of the system
    }


def _sizes(model: Model) -> dict[str, Any]:
    return {
        "network": model.network,
        "group": model.group,
        "number_of_nodes": model.nodes,
        "number_of_ranks": model.ranks,
        "accelerators_per_node": model.accelerators,
        constants.SEED: model.seed,
        constants.GLOBAL_BATCH_SIZE: model.recipe.batch * model.recipe.degree,
        constants.GRADIENT_ACCUMULATION_STEPS: 1,
        constants.TRAIN_SAMPLES: model.training_samples,
        constants.EVAL_SAMPLES: model.validation_samples,
        "epochs": model.recipe.epochs,
    }


def _optimiser(model: Model) -> dict[str, Any]:
    name, recipe, rule = model.optimiser, model.recipe, model.recipe.rule
    found = {
        constants.OPT_NAME: name,
        constants.OPT_BASE_LR: recipe.peak_rate,
        constants.OPT_LR_WARMUP_EPOCHS: recipe.warmup_epochs,
        constants.OPT_LR_DECAY_SCHEDULE: recipe.schedule,
        constants.OPT_WEIGHT_DECAY: rule.decay,
    }
    own = {each.name: getattr(rule, each.name) for each in fields(rule) if each.name != "decay"}
    if "epsilon" in own:
        own["epsilon"] = rule.options()["eps"]  # in the input 0 stands for the optimiser's own
    keys = {field: HYPERPARAMETERS.get(field, f"opt_{{}}_{field}").format(name) for field in own}
    return found | {keys[field]: value for field, value in own.items()}


def _meaning(model: Model) -> dict[str, Any]:
    return {"quality": model.of.name, "larger_is_better": model.of.larger_is_better}


def _interval(interval: Interval, training: Trained) -> Iterator[Event]:
    """Begin and end of an epoch, or of a validation with its quality; one that was broken off has none."""
    start, stop = LOGGED.get(interval.what, EVALUATION)
    number = {constants.EPOCH_NUM: interval.epoch} | ({} if training.trial is None else {"trial": training.trial})
    yield Event(interval.begun, start, kind="start", metadata=number)
    if interval.what != EPOCH and interval.epoch in training.qualities:
        yield Event(interval.ended, constants.EVAL_ACCURACY, training.qualities[interval.epoch], metadata=number)
    yield Event(interval.ended, stop, kind="end", metadata=number)

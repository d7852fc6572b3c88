"""Claims about the work of models trained together, from input, sampler and shards."""

from collections.abc import Callable

from hpcai.claims.shards import evaluated, left_out, shards_of, trained
from hpcai.data.order import Shard
from hpcai.formulas.audits import MOST
from hpcai.inputfile import Case
from hpcai.record.training import Models, TrainingRaw
from hpcai.results.alterations import changed
from hpcai.results.claim import Claim, Subject

ONE_MODEL = "one model"  # the example with one group of several ranks
BY_COMPILE = {"off": ["layer by layer"], "torch": ["torch.compile"], "graphs": ["CUDA graphs", "layer by layer"]}
ROUNDING = 1e-9  # of sums of seconds, as a share
Holds = Callable[[Case, TrainingRaw], bool]


def _within_training(raw: TrainingRaw) -> bool:
    """Whether the busiest rank, and on average busy and waiting time, fit into the training of the slowest rank."""
    mean = raw.busy_seconds.mean + raw.waiting_seconds.data + raw.waiting_seconds.communication
    return max(mean, raw.busy_seconds.max) <= raw.phases.training * (1 + ROUNDING)


def of_raw(holds: Holds) -> Callable[[Subject], bool]:
    """A claim about the case and the raw measurements only."""
    return lambda subject: holds(subject.case, subject.entry.raw)


def _shards(case: Case, raw: TrainingRaw) -> tuple[Shard, ...]:
    return shards_of(case, raw.dataset.training_samples)


def _steps(case: Case, raw: TrainingRaw) -> list[int]:
    """Optimiser steps of each model."""
    return [shard.steps * case.epochs for shard in _shards(case, raw)]


WORK = (
    Claim(
        "samples + skipped_samples = EPOCHS x the shards",
        of_raw(
            lambda case, raw: raw.work.samples + raw.work.skipped_samples == trained(case, _shards(case, raw)),
        ),
        changed("raw.work.samples", 801),
    ),
    Claim(
        "steps = EPOCHS x the steps of all models",
        of_raw(lambda case, raw: raw.work.steps == sum(_steps(case, raw))),
        changed("raw.work.steps", 1),
    ),
    Claim(
        "models.steps_min, of the models",
        of_raw(lambda case, raw: raw.models.steps_min == min(_steps(case, raw))),
        changed("raw.models.steps_min", 1),
    ),
    Claim(
        "models.steps_max, of the models",
        of_raw(lambda case, raw: raw.models.steps_max == max(_steps(case, raw))),
        changed("raw.models.steps_max", 99),
    ),
    Claim(
        "step_seconds.count, of a model",
        of_raw(lambda case, raw: raw.models.steps_min <= raw.step_seconds.count <= raw.models.steps_max),
        changed("raw.step_seconds.count", 99),
    ),
    Claim(
        "steps_per_epoch of the first model",
        of_raw(lambda case, raw: raw.preparation.steps_per_epoch == _shards(case, raw)[0].steps),
        changed("raw.preparation.steps_per_epoch", 99),
    ),
    Claim(
        "sharding of the first model",
        of_raw(lambda case, raw: raw.preparation.sharding == _shards(case, raw)[0].rule),
        changed("raw.preparation.sharding", "in turns"),
    ),
    Claim(
        "replay: one step or a few in each epoch of each model",
        of_raw(
            lambda case, raw: case.groups * case.epochs <= raw.replay.steps <= MOST * case.groups * case.epochs,
        ),
        changed("raw.replay.steps", 1),
    ),
    Claim(
        "validation_passes = GROUPS x evaluated epochs",
        of_raw(lambda case, raw: raw.work.validation_passes == case.groups * len(evaluated(case))),
        changed("raw.work.validation_passes", 1),
    ),
    Claim(
        "validation_counted = passes x samples",
        of_raw(
            lambda case, raw: (
                raw.work.validation_counted == raw.work.validation_passes * raw.dataset.validation_samples
            ),
        ),
        changed("raw.work.validation_counted", 1),
    ),
)


BAGS = (
    Claim(
        "bag_evaluated: what the samplers left out",
        lambda subject: (
            subject.entry.raw.ensemble.bag_evaluated
            == left_out(subject.case, subject.entry.raw.dataset.training_samples)
        ),
        changed("raw.ensemble.bag_evaluated", 200),
    ),
)
SAMPLES_IN_MEMORY = Claim(
    "memory.data: samples of the dataset",
    lambda subject: (
        subject.entry.memory.data is not None
        and subject.entry.memory.data.samples == subject.entry.raw.dataset.training_samples
    ),
    changed("memory.data.samples", 1),
)


def _between_nodes(case: Case, models: Models) -> bool:
    return models.between_nodes <= (case.groups if case.degree > 1 else 0)


RANKS = (
    Claim(
        "backend is none if, and only if, DEGREE = 1",
        of_raw(lambda case, raw: (raw.backend == "none") == (case.degree == 1)),
        changed("raw.backend", "gloo"),
    ),
    Claim(
        "backend: nccl with GPUs only",
        lambda subject: subject.entry.raw.backend != "nccl" or subject.environment.accelerators > 0,
        changed("raw.backend", "nccl"),
        ONE_MODEL,
    ),
    Claim(
        "models.between_nodes: models of several ranks, at most all",
        of_raw(lambda case, raw: _between_nodes(case, raw.models)),
        changed("raw.models.between_nodes", 1),
    ),
    Claim(
        "models.between_nodes: with several nodes only",
        lambda subject: subject.entry.raw.models.between_nodes == 0 or subject.environment.nodes > 1,
        changed("raw.models.between_nodes", 1),
        ONE_MODEL,
    ),
    Claim(
        "buckets if, and only if, there are several replicas",
        of_raw(lambda case, raw: (raw.execution.buckets > 0) == (case.split.replicas > 1)),
        changed("raw.execution.buckets", 3),
    ),
    Claim(
        "one rank of a model does not communicate",
        of_raw(lambda case, raw: case.degree > 1 or raw.phases.exposed_communication == 0),
        changed("raw.phases.exposed_communication", 0.001),
    ),
    Claim(
        "busy_seconds: slowest_rank is active",
        of_raw(lambda case, raw: raw.busy_seconds.slowest_rank < case.planned_groups * case.degree),
        changed("raw.busy_seconds.slowest_rank", 2),
    ),
    Claim(
        "busy_seconds: with the waiting at most the training",
        of_raw(lambda case, raw: _within_training(raw)),
        changed("raw.busy_seconds.max", 1e9),
    ),
    Claim(
        "phase start_up is the first test's",
        of_raw(lambda case, raw: (raw.phases.start_up is not None) == (case.index == 1)),
        changed("raw.phases.start_up", None),
    ),
)


def _compiled(case: Case) -> bool:
    return _asked(case) != "off"


def _asked(case: Case) -> str:
    return str(case.settings.get("COMPILE", "off"))


def _tried(case: Case, raw: TrainingRaw) -> bool:
    return sorted(raw.execution.trials) == (sorted(BY_COMPILE["graphs"]) if _asked(case) == "graphs" else [])


def _fastest(case: Case, raw: TrainingRaw) -> bool:
    trials = raw.execution.trials
    return not trials or trials.get(raw.execution.by) == min(trials.values())


EXECUTION = (
    Claim(
        "execution: by what COMPILE allows",
        of_raw(lambda case, raw: raw.execution.by in BY_COMPILE[_asked(case)]),
        changed("raw.execution.by", "torch.compile"),
    ),
    Claim(
        "execution: graphs if, and only if, COMPILE is on",
        of_raw(lambda case, raw: (raw.execution.graphs > 0) == _compiled(case)),
        changed("raw.execution.graphs", 1),
    ),
    Claim(
        "execution: time of compilation if, and only if, COMPILE is on",
        of_raw(lambda case, raw: (raw.execution.compile_seconds > 0) == _compiled(case)),
        changed("raw.execution.compile_seconds", 1.0),
    ),
    Claim(
        "execution: trials if, and only if, COMPILE is graphs",
        of_raw(_tried),
        changed("raw.execution.trials", {"layer by layer": 1.0, "CUDA graphs": 2.0}),
    ),
    Claim(
        "execution: the fastest of the trials",
        of_raw(_fastest),
        changed("raw.execution.trials", {"layer by layer": 2.0, "CUDA graphs": 1.0}),
    ),
)

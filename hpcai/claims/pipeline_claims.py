"""Claims about the stages of models that are trained by a pipeline."""

from math import isclose

from hpcai.claims.shards import shards_of, trained
from hpcai.data.order import Shard
from hpcai.inputfile.split import PIPELINE, micro_batches
from hpcai.results.alterations import changed, together
from hpcai.results.claim import Claim, Subject
from hpcai.results.pipeline_cost import crossing_bytes, stage_operations

PEAKS_APART = 1.1  # of two readings of the same peak
STAGE = {"operations": 8, "micro_batches": 8, "busy": 1e-3, "waiting": 1e-3, "peak_bytes": 4096}
FORGED = {"bytes": 4096.0, "stages": [STAGE, STAGE]}


def _there(subject: Subject) -> bool:
    return (subject.entry.raw.pipeline is None) == (subject.case.split.stages == 1)


def _samples(subject: Subject) -> int:
    """Samples of every training step, skipped ones included."""
    return trained(subject.case, shards_of(subject.case, subject.entry.raw.dataset.training_samples))


def _crossing(subject: Subject) -> bool:
    raw, case = subject.entry.raw, subject.case
    return raw.pipeline is None or isclose(
        raw.pipeline.bytes, crossing_bytes(case, raw, _samples(subject)), rel_tol=1e-9
    )


def _operations(subject: Subject) -> bool:
    raw, case = subject.entry.raw, subject.case
    if raw.pipeline is None:
        return True
    return [stage.operations for stage in raw.pipeline.stages] == stage_operations(case, raw, _samples(subject))


def _trained(subject: Subject) -> bool:
    """Each stage has trained every micro-batch of every step of all replicas, and each of its shards has."""
    case, found = subject.case, subject.entry.raw.pipeline
    if found is None:
        return True
    shards = shards_of(case, subject.entry.raw.dataset.training_samples)
    of_a_rank = sum(_of_epoch(shard, case.chunks) for shard in shards) * case.epochs
    needed = of_a_rank * case.split.replicas * case.split.shards
    return all(stage.micro_batches == needed for stage in found.stages)


def _of_epoch(shard: Shard, chunks: int) -> int:
    """Micro-batches of a replica's epoch."""
    full = shard.steps - 1
    return full * micro_batches(shard.batch, chunks) + micro_batches(shard.samples - full * shard.batch, chunks)


def _within(subject: Subject) -> bool:
    raw = subject.entry.raw
    stages = raw.pipeline.stages if raw.pipeline else ()
    return all(stage.busy + stage.waiting <= raw.phases.training * (1 + 1e-9) for stage in stages)


def _means(subject: Subject) -> bool:
    """The stages' times have the means that are measured over all ranks; transfers are part of the communication."""
    raw = subject.entry.raw
    if raw.pipeline is None:
        return True
    stages = raw.pipeline.stages
    busy, waiting = (sum(values) / len(stages) for values in zip(*((s.busy, s.waiting) for s in stages), strict=True))
    waiting += raw.exchanged.seconds if raw.exchanged else 0.0
    whole = subject.case.split.replicas > 1 or isclose(waiting, raw.waiting_seconds.communication, abs_tol=1e-6)
    within = waiting <= raw.waiting_seconds.communication + 1e-6
    return whole and within and isclose(busy, raw.busy_seconds.mean, abs_tol=1e-6)


def _peaks(subject: Subject) -> bool:
    """No stage used more than the rank that used most in the whole test, as the kernel counts: late, by processor."""
    found, memory = subject.entry.raw.pipeline, subject.entry.memory
    most = memory.device_peak_bytes if memory.accelerated else memory.peak_bytes
    return found is None or max(stage.peak_bytes for stage in found.stages) <= PEAKS_APART * most


_TWO = changed("settings.PARALLEL", PIPELINE)

PIPELINED = (
    Claim("pipeline if, and only if, there are several stages", _there, changed("raw.pipeline", FORGED)),
    Claim("pipeline.bytes: what crosses between stages", _crossing, together(_TWO, changed("raw.pipeline", FORGED))),
    Claim("pipeline.stages: operations of layers", _operations, together(_TWO, changed("raw.pipeline", FORGED))),
    Claim(
        "pipeline.stages: micro-batches of all steps",
        _trained,
        together(_TWO, changed("raw.pipeline", {**FORGED, "stages": [{**STAGE, "micro_batches": 7}]})),
    ),
    Claim(
        "pipeline.stages: busy and waiting within the training",
        _within,
        changed("raw.pipeline", {**FORGED, "stages": [{**STAGE, "waiting": 1e9}]}),
    ),
    Claim(
        "pipeline.stages: their means are those of all ranks",
        _means,
        together(_TWO, changed("raw.pipeline", {**FORGED, "stages": [{**STAGE, "waiting": 0.0}]})),
    ),
    Claim(
        "pipeline.stages: peak_bytes up to that of the test",
        _peaks,
        together(_TWO, changed("raw.pipeline", {**FORGED, "stages": [{**STAGE, "peak_bytes": 2**60}]})),
    ),
)

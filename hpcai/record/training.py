"""Records of tests that train models together: raw measurements and the row of HPL."""

from typing import Annotated, Generic, Literal, TypeVar

from msgspec import Meta

from hpcai.record.dataset import Dataset, Staging
from hpcai.record.entry import Row
from hpcai.record.phases import Phases
from hpcai.record.preflight import (
    KernelChoice,
    PrecisionProbe,
    Residuals,
    SiteKernels,
    VendorComparison,
    Worst,
)
from hpcai.record.record import Backend, Count, Record, Seconds, about
from hpcai.record.training_scores import TrainingScores


class Preparation(Record, kw_only=True):
    """What is fixed and tried before the clock starts."""

    steps_per_epoch: Annotated[Count, about("optimiser steps of the first model in an epoch")]
    sharding: Annotated[str, about("how an epoch's samples are divided among the ranks of a group")]
    warmup_steps: Annotated[Count, about("steps before the clock, whose weights are discarded")]
    wrong_sums: Annotated[Count, about("wrong elements of an all-reduce of integers, all ranks")]
    residuals: Annotated[Residuals, about("residuals of the provider's products")]
    probe: Annotated[PrecisionProbe | None, about("of precisions other than fp32")] = None
    vendor_comparison: Annotated[VendorComparison | None, about("of KERNELS other than vendor")] = None
    kernel_choice: Annotated[KernelChoice | None, about("of KERNELS auto")] = None


class Work(Record, kw_only=True):
    """What all models did, summed over the ranks."""

    samples: Annotated[Count, about("training samples of steps that changed the weights")]
    skipped_steps: Annotated[Count, about("steps skipped because a gradient overflowed, all models")]
    skipped_samples: Annotated[Count, about("samples of the skipped steps")]
    executed_operations: Annotated[Count, about("operations as the layers' hooks counted them", unit="FLOP")]
    differing_ranks: Annotated[Count, about("ranks whose weights or statistics differ from their group's first rank")]
    steps: Annotated[Count, about("optimiser steps of all models")]
    validation_passes: Annotated[Count, about("validations of all models")]
    validation_counted: Annotated[Count, about("validation samples evaluated, all models")]
    validation_miscounted: Annotated[Count, about("validation samples not evaluated exactly once")]
    diverged_models: Annotated[Count, about("models whose last training loss is not finite")]


class Models(Record, kw_only=True):
    """Extremes and sums over the models."""

    steps_min: Annotated[Count, about("fewest steps of a model")]
    steps_max: Annotated[Count, about("most steps of a model")]
    reached: Annotated[Count, about("models that reached the target")]
    reached_seconds_sum: Annotated[float, about("their times to quality, summed", unit="s")]
    reached_seconds_max: Annotated[float, about("the longest time to quality", unit="s")]
    reached_epochs_sum: Annotated[Count, about("their epochs to quality, summed")]
    reached_epochs_max: Annotated[Count, about("the most epochs to quality")]
    between_nodes: Annotated[Count, about("models whose ranks lie on several nodes")]


Value = TypeVar("Value", int, float)


class Members(Record, Generic[Value], kw_only=True):
    """Qualities of the models one by one: correct samples of classifiers, mean average precision of detectors."""

    sum: Annotated[Value, Meta(ge=0), about("of all models at their end")]
    min: Annotated[Value, Meta(ge=0), about("of the model with the smallest at its end")]
    max: Annotated[Value, Meta(ge=0), about("of the model with the largest at its end")]
    best: Annotated[Value, Meta(ge=0), about("the best of any model in any epoch")]


class Replay(Record, kw_only=True):
    """Steps that were repeated in float64 from their formula, and sums over the bits of the weights."""

    steps: Annotated[Count, about("steps that were replayed")]
    wrong_epochs: Annotated[Count, about("epochs whose samples were not those of the sampler")]
    changed_ranks: Annotated[Count, about("ranks whose weights changed outside of steps")]
    deviation: Annotated[Worst, about("largest deviation of an update, relative to its rounding bound")]
    lost: Annotated[Worst, about("largest share of a term of the update that is missing")]


ExecutedBy = Literal["layer by layer", "torch.compile", "CUDA graphs"]


class Execution(Record, kw_only=True):
    """How the network was executed."""

    by: Annotated[ExecutedBy, about("what executed the layers")]
    graphs: Annotated[Count, about("graphs compiled or captured before the clock")]
    late_graphs: Annotated[Count, about("graphs compiled within the timed region")]
    compile_seconds: Annotated[Seconds, about("time of compilation", unit="s")]
    trials: Annotated[dict[str, Seconds], about("seconds of each alternative that was tried", unit="s")]
    buckets: Annotated[Count, about("buckets of gradients in a step")]


class StepSeconds(Record, kw_only=True):
    """Step times of the rank with the largest median."""

    count: Annotated[Count, about("steps")]
    mean: Annotated[float, about("mean", unit="s", label="step time, mean, s")]
    median: Annotated[float, about("median", unit="s", label="step time, median, s")]
    p95: Annotated[float, about("95th percentile", unit="s", label="step time, 95th percentile, s")]


class BusySeconds(Record, kw_only=True):
    """Time in which a rank computed in the timed region: training time less waits for data and for other ranks."""

    min: Annotated[float, about("of the fastest rank", unit="s", label="busy time of the ranks, min, s")]
    mean: Annotated[float, about("mean over the ranks", unit="s", label="busy time of the ranks, mean, s")]
    max: Annotated[float, about("of the slowest rank", unit="s", label="busy time of the ranks, max, s")]
    slowest_rank: Annotated[Count, about("the rank that computed longest")]
    slowest_host: Annotated[str, about("its host")]


class WaitingSeconds(Record, kw_only=True):
    """Mean waits of a rank in the timed region."""

    data: Annotated[Seconds, about("for training data", unit="s")]
    communication: Annotated[Seconds, about("for communication that computing did not hide", unit="s")]


class OperatorSeconds(Record, kw_only=True):
    """Profiled time of a few steps by class of operator, on the first rank."""

    convolution: Annotated[Seconds, about("convolutions", unit="s")]
    gemm: Annotated[Seconds, about("matrix products", unit="s")]
    normalisation: Annotated[Seconds, about("normalisations", unit="s")]
    elementwise: Annotated[Seconds, about("element-wise operators", unit="s")]
    other: Annotated[Seconds, about("all other operators", unit="s")]


class TrainingRaw(Record, kw_only=True):
    """Raw measurements of models that are trained and evaluated together."""

    backend: Annotated[Backend, about("backend of the all-reduce; none where groups have one rank")]
    dataset: Annotated[Dataset, about("the data")]
    target: Annotated[float, about("quality target")]
    preparation: Annotated[Preparation, about("before the clock")]
    work: Annotated[Work, about("work of all models")]
    models: Annotated[Models, about("extremes and sums over the models")]
    replay: Annotated[Replay, about("replayed steps")]
    execution: Annotated[Execution, about("execution of the network")]
    phases: Annotated[Phases, about("seconds by phase", unit="s")]
    step_seconds: Annotated[StepSeconds, about("step times", unit="s")]
    busy_seconds: Annotated[BusySeconds, about("busy times", unit="s")]
    waiting_seconds: Annotated[WaitingSeconds, about("waits", unit="s")]
    operator_seconds: Annotated[OperatorSeconds, about("profiled times", unit="s")]
    staging: Annotated[Staging | None, about("where STAGE is not none")] = None
    site_kernels: Annotated[SiteKernels | None, about("where KERNELS names a file")] = None


class TrainingRow(Row, kw_only=True):
    """A row of HPL of models that are trained and evaluated together."""

    phases: Annotated[Phases, about("seconds by phase, as in raw", unit="s")]
    scores: Annotated[TrainingScores, about("scores")]
    raw: Annotated[TrainingRaw, about("raw measurements")]


class StoppedTraining(Record, kw_only=True):
    """What was measured of a test before the run was broken off."""

    where: Annotated[Literal["preparation", "training", "ensemble"], about("the stage in which it stopped")]
    dataset: Annotated[Dataset, about("the data")]
    samples: Annotated[Count, about("training samples of steps that changed the weights")]
    skipped_samples: Annotated[Count, about("samples of skipped steps")]
    executed_operations: Annotated[Count, about("operations as the layers' hooks counted them", unit="FLOP")]
    steps: Annotated[Count, about("optimiser steps of all models")]
    seconds: Annotated[Seconds, about("training time", unit="s")]

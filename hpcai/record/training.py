"""Records of tests that train models together: raw measurements and the row of HPL."""

from typing import Annotated, Generic, Literal, TypeVar

from msgspec import Meta

from hpcai.record.all_reduce import AllReduce, SentGradients
from hpcai.record.checkpoints import WrittenCheckpoints
from hpcai.record.content import WhatArrived
from hpcai.record.dataset import Dataset, Staging
from hpcai.record.energy import Energy
from hpcai.record.entry import Row
from hpcai.record.exchange import Exchanged
from hpcai.record.phases import Phases
from hpcai.record.pipeline import Pipelined
from hpcai.record.preflight import (
    CheckedNetwork,
    KernelChoice,
    PrecisionProbe,
    Residuals,
    SiteKernels,
    VendorComparison,
    Worst,
)
from hpcai.record.processor import RanksProcessor
from hpcai.record.record import Backend, Count, Digits16, NonNegative, Record, Seconds, about
from hpcai.record.sample_loading import Loading
from hpcai.record.training_scores import TrainingScores
from hpcai.record.wall_time import AccountingOfTest


class Preparation(Record, kw_only=True):
    """Settings and measurements before the clock starts."""

    steps_per_epoch: Annotated[Count, about("optimiser steps of an epoch, first model")]
    sharding: Annotated[str, about("how an epoch's samples are divided among the ranks of a group")]
    warmup_steps: Annotated[Count, about("steps before the clock, whose effects are undone")]
    wrong_sums: Annotated[Count, about("wrong elements of an all-reduce of integers, all ranks")]
    residuals: Annotated[Residuals, about("residuals of the provider's products")]
    probe: Annotated[PrecisionProbe | None, about("precision other than fp32 only: time of the heaviest layer")] = None
    vendor_comparison: Annotated[
        VendorComparison | None, about("KERNELS other than vendor only: comparison with the vendor's")
    ] = None
    kernel_choice: Annotated[KernelChoice | None, about("KERNELS auto only: times and choice")] = None
    processor: RanksProcessor = None
    network_check: CheckedNetwork = None


class Work(Record, kw_only=True):
    """Work of all models, summed over the ranks."""

    samples: Annotated[Count, about("training samples of steps that changed the weights")]
    skipped_steps: Annotated[Count, about("steps skipped because a gradient overflowed, all models")]
    skipped_samples: Annotated[Count, about("samples of the skipped steps")]
    executed_operations: Annotated[Count, about("operations counted while the layers ran", unit="FLOP")]
    differing_ranks: Annotated[Count, about("ranks whose weights or statistics differ from their group's first rank")]
    steps: Annotated[Count, about("optimiser steps of all models")]
    validation_passes: Annotated[Count, about("validations of all models")]
    validation_counted: Annotated[Count, about("validation samples evaluated, all models")]
    validation_miscounted: Annotated[Count, about("validation samples not evaluated exactly once")]
    diverged_models: Annotated[Count, about("models whose loss is not finite")]


class Models(Record, kw_only=True):
    """Minima, maxima and sums over the models."""

    steps_min: Annotated[Count, about("fewest steps of a model")]
    steps_max: Annotated[Count, about("most steps of a model")]
    reached: Annotated[Count, about("models that reached the target")]
    reached_seconds_sum: Annotated[float, about("sum of their times to quality", unit="s")]
    reached_seconds_max: Annotated[float, about("longest of their times to quality", unit="s")]
    reached_epochs_sum: Annotated[Count, about("sum of their epochs to quality")]
    reached_epochs_max: Annotated[Count, about("most of their epochs to quality")]
    between_nodes: Annotated[Count, about("models whose ranks lie on several nodes")]


Value = TypeVar("Value", int, float)


class Members(Record, Generic[Value], kw_only=True):
    """Qualities of the models one by one: correct samples, mean average precision or bits per byte."""

    sum: Annotated[Value, Meta(ge=0), about("sum over the models, after the last epoch")]
    min: Annotated[Value, Meta(ge=0), about("smallest of the models after the last epoch")]
    max: Annotated[Value, Meta(ge=0), about("largest of the models after the last epoch")]
    best: Annotated[Value, Meta(ge=0), about("best of all models and validations")]


class Audits(Record, kw_only=True):
    """Audited steps of the first model."""

    entropy: Annotated[Digits16, about("what the steps are drawn from, 16 digits")]
    steps: Annotated[tuple[tuple[Count, Count], ...], about("epoch and step of each, from 0")]


class Replay(Record, kw_only=True):
    """Checks beside the training: audited steps replayed and compared with their float64 formula, gradients, clocks."""

    steps: Annotated[Count, about("audited steps, replayed")]
    wrong_epochs: Annotated[Count, about("epochs whose samples are not those that seed, model and epoch give")]
    changed_ranks: Annotated[Count, about("times that weights changed outside of steps, all ranks")]
    deviation: Annotated[Worst, about("largest deviation of an update / its bound")]
    lost: Annotated[Worst, about("largest share of a term of the update that is missing or doubled")]
    stale: Annotated[
        Count | None, about("gradients of tensors that are missing or those of an earlier step, all ranks")
    ] = None
    still: Annotated[Count | None, about("tensors that did not move in a step that had to move them, all ranks")] = None
    outside: Annotated[
        Count | None, about("backward passes and updates outside of the timed region, or missing in it, all ranks")
    ] = None
    others: Annotated[Count | None, about("evaluations of weights other than the last ones, all ranks")] = None
    clocks: Annotated[
        NonNegative | None, about("training time by two clocks, and by steps: difference / what is allowed; worst rank")
    ] = None
    inside_share: Annotated[
        NonNegative | None, about("copies of audited steps / training time, of which they are part; the worst rank")
    ] = None
    outside_share: Annotated[
        NonNegative | None, about("replays and other checks after epochs / training time; the worst rank")
    ] = None
    audits: Annotated[Audits | None, about("audited steps of the first model; null of a search")] = None
    weights: Annotated[
        Digits16 | None,
        about("checksum over the bits of the last weights and statistics of all models; null of a search"),
    ] = None
    repeated: Annotated[
        Count | None, about("models whose last weights are those of the next one; null of one model and of a search")
    ] = None


ExecutedBy = Literal["layer by layer", "torch.compile", "CUDA graphs"]


class Execution(Record, kw_only=True):
    """Execution of the network."""

    by: Annotated[ExecutedBy, about("how the layers were executed")]
    graphs: Annotated[Count, about("graphs compiled or captured before the clock")]
    late_graphs: Annotated[Count, about("graphs compiled within the timed region")]
    compile_seconds: Annotated[Seconds, about("time of compilation", unit="s")]
    trials: Annotated[dict[str, Seconds], about("seconds of each alternative that was tried", unit="s")]
    buckets: Annotated[Count, about("buckets of gradients in a step")]


class StepSeconds(Record, kw_only=True):
    """Step times of the rank with the largest median."""

    count: Annotated[Count, about("steps")]
    mean: Annotated[float, about("mean of the step times", unit="s", label="step time, mean, s")]
    median: Annotated[float, about("median of the step times", unit="s", label="step time, median, s")]
    p95: Annotated[
        float,
        about("least time that 95 % of the steps did not exceed", unit="s", label="step time, 95th percentile, s"),
    ]


class BusySeconds(Record, kw_only=True):
    """Time in which a rank computed in the timed region: training time less waits for data and for other ranks."""

    min: Annotated[float, about("least busy rank", unit="s", label="busy time of the ranks, min, s")]
    mean: Annotated[float, about("mean of the ranks", unit="s", label="busy time of the ranks, mean, s")]
    max: Annotated[float, about("busiest rank", unit="s", label="busy time of the ranks, max, s")]
    slowest_rank: Annotated[Count, about("number of the busiest rank")]
    slowest_host: Annotated[str, about("host of the busiest rank")]


class WaitingSeconds(Record, kw_only=True):
    """Mean waits of a rank in the timed region."""

    data: Annotated[Seconds, about("waiting for a batch", unit="s")]
    communication: Annotated[Seconds, about("exposed communication", unit="s")]


class OperatorSeconds(Record, kw_only=True):
    """Profiled time of a few steps by class of operator, on the first rank."""

    convolution: Annotated[Seconds, about("convolutions", unit="s")]
    gemm: Annotated[Seconds, about("matrix products", unit="s")]
    normalisation: Annotated[Seconds, about("normalisations", unit="s")]
    elementwise: Annotated[Seconds, about("element-wise operators", unit="s")]
    other: Annotated[Seconds, about("all other operators", unit="s")]


LostGroups = Annotated[
    tuple[int, ...], about("groups (from 0) that ended because a rank was lost; all else is of the others")
]


class TrainingRaw(Record, kw_only=True):
    """Raw measurements of models that are trained and evaluated together."""

    backend: Annotated[Backend, about("backend of the all-reduce; none where groups have one rank")]
    dataset: Annotated[Dataset, about("the data")]
    target: Annotated[float, about("quality target")]
    preparation: Annotated[Preparation, about("preparation before the clock")]
    work: Annotated[Work, about("work of all models, summed over the ranks")]
    models: Annotated[Models, about("extremes and sums over the models")]
    replay: Annotated[Replay, about("replayed steps")]
    execution: Annotated[Execution, about("execution of the network")]
    phases: Annotated[Phases, about("seconds by phase", unit="s")]
    step_seconds: Annotated[StepSeconds, about("step times of the rank with the largest median", unit="s")]
    busy_seconds: Annotated[BusySeconds, about("training time less data wait and exposed communication", unit="s")]
    waiting_seconds: Annotated[WaitingSeconds, about("mean waits of the ranks", unit="s")]
    operator_seconds: Annotated[
        OperatorSeconds, about("time by class of operator in two profiled steps, first rank", unit="s")
    ]
    staging: Annotated[Staging | None, about("STAGE other than none only: copies of the data")] = None
    site_kernels: Annotated[SiteKernels | None, about("KERNELS file:PATH only: the kernels of the file")] = None
    all_reduce: Annotated[AllReduce | None, about("DEGREE above 1 only: summation of the gradients")] = None
    sent: Annotated[SentGradients | None, about("DEGREE above 1 only: what a rank sent")] = None
    exchanged: Annotated[Exchanged | None, about("PARALLEL tensor and mixed only: exchanged channels")] = None
    pipeline: Annotated[Pipelined | None, about("PARALLEL pipeline and mixed only: the stages")] = None
    loading: Annotated[Loading | None, about("loading of the training samples")] = None
    energy: Annotated[Energy | None, about("energy of the timed region; null in older results")] = None
    accounting: AccountingOfTest = None
    delivered: WhatArrived = None
    checkpoints: WrittenCheckpoints = None
    lost_groups: LostGroups = ()
    evaluation_deviation: Annotated[
        float | None,
        about("classifiers only: evaluation against the simple path / bound, worst sample; null in older results"),
    ] = None


class TrainingRow(Row, kw_only=True):
    """A row of HPL of models that are trained and evaluated together."""

    phases: Annotated[Phases, about("seconds by phase, as in raw", unit="s")]
    scores: Annotated[TrainingScores, about("scores")]
    raw: Annotated[TrainingRaw, about("raw measurements")]


class StoppedTraining(Record, kw_only=True):
    """Measurements of a test before the run was broken off."""

    where: Annotated[Literal["preparation", "training", "ensemble"], about("the stage in which it stopped")]
    dataset: Annotated[Dataset, about("the data")]
    samples: Annotated[Count, about("training samples of steps that changed the weights")]
    skipped_samples: Annotated[Count, about("samples of skipped steps")]
    executed_operations: Annotated[Count, about("operations counted while the layers ran", unit="FLOP")]
    steps: Annotated[Count, about("optimiser steps of all models")]
    seconds: Annotated[Seconds, about("training time", unit="s")]
    lost_groups: LostGroups = ()

"""Records that the tests share which train models together: raw measurements, phases, and scores."""

from typing import Annotated, Generic, Literal, TypeVar

from hpcai.record.dataset import Dataset, Staging
from hpcai.record.entry import Row
from hpcai.record.preflight import (
    KernelChoice,
    PrecisionProbe,
    Residuals,
    SiteKernels,
    VendorComparison,
    Worst,
)
from hpcai.record.record import Backend, Count, Name, Positive, Record, Seconds, about
from hpcai.record.roofline import GradientBandwidth, Roofline


class Preparation(Record):
    """What is fixed and tried before the clock starts."""

    steps_per_epoch: Annotated[Count, about("optimiser steps of the first model in an epoch")]
    sharding: Annotated[str, about("how an epoch's samples are divided among the ranks of a group")]
    warmup_steps: Annotated[Count, about("steps before the clock, whose weights are discarded")]
    wrong_sums: Annotated[Count, about("wrong elements of an all-reduce of integers, all ranks")]
    residuals: Annotated[Residuals, about("residuals of the provider's products")]
    probe: Annotated[PrecisionProbe | None, about("of precisions other than fp32")] = None
    vendor_comparison: Annotated[VendorComparison | None, about("of KERNELS other than vendor")] = None
    kernel_choice: Annotated[KernelChoice | None, about("of KERNELS auto")] = None


class Work(Record):
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


class Models(Record):
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


class Members(Record, Generic[Value]):
    """Qualities of the models one by one: correct samples of classifiers, mean average precision of detectors."""

    sum: Annotated[Value, about("of all models at their end")]
    min: Annotated[Value, about("of the worst model at its end")]
    max: Annotated[Value, about("of the best model at its end")]
    best: Annotated[Value, about("of any model in any epoch")]


class Replay(Record):
    """Steps that were repeated in float64 from their formula, and sums over the bits of the weights."""

    steps: Annotated[Count, about("steps that were replayed")]
    wrong_epochs: Annotated[Count, about("epochs whose samples were not those of the sampler")]
    changed_ranks: Annotated[Count, about("ranks whose weights changed outside of steps")]
    deviation: Annotated[Worst, about("largest deviation of an update, relative to its rounding bound")]
    lost: Annotated[Worst, about("largest share of a term of the update that is missing")]


class Execution(Record):
    """How the network was executed."""

    by: Annotated[Literal["layer by layer", "torch.compile", "CUDA graphs"], about("what executed the layers")]
    graphs: Annotated[Count, about("graphs compiled or captured before the clock")]
    late_graphs: Annotated[Count, about("graphs compiled within the timed region")]
    compile_seconds: Annotated[Seconds, about("time of compilation", unit="s")]
    trials: Annotated[dict[str, Seconds], about("seconds of each alternative that was tried", unit="s")]
    buckets: Annotated[Count, about("buckets of gradients in a step")]


class StepSeconds(Record):
    """Step times of the rank with the largest median."""

    count: Annotated[Count, about("steps")]
    mean: Annotated[float, about("mean", unit="s", label="step time, mean, s")]
    median: Annotated[float, about("median", unit="s", label="step time, median, s")]
    p95: Annotated[float, about("95th percentile", unit="s", label="step time, 95th percentile, s")]


class BusySeconds(Record):
    """Time in which a rank computed in the timed region: training time less waits for data and for other ranks."""

    min: Annotated[float, about("of the fastest rank", unit="s", label="busy time of the ranks, min, s")]
    mean: Annotated[float, about("mean over the ranks", unit="s", label="busy time of the ranks, mean, s")]
    max: Annotated[float, about("of the slowest rank", unit="s", label="busy time of the ranks, max, s")]
    slowest_rank: Annotated[Count, about("the rank that computed longest")]
    slowest_host: Annotated[str, about("its host")]


class WaitingSeconds(Record):
    """Mean waits of a rank in the timed region."""

    data: Annotated[Seconds, about("for training data", unit="s")]
    communication: Annotated[Seconds, about("for communication that computing did not hide", unit="s")]


class Phases(Record):
    """Seconds of the slowest rank by phase, in the order in which they happen; null where a test has no such phase."""

    start_up: Annotated[
        Seconds | None,
        about(
            "from the start of the process to the first timed step, of the first test",
            unit="s",
            label="phase start-up, s",
        ),
    ] = None
    staging: Annotated[Seconds | None, about("copy of the data to the nodes", unit="s", label="phase staging, s")] = None
    set_up: Annotated[Seconds, about("data and model are made ready", unit="s", label="phase set-up, s")]
    kernel_choice: Annotated[
        Seconds | None, about("KERNELS auto times the layers", unit="s", label="phase kernel choice, s")
    ] = None
    residuals: Annotated[Seconds, about("the provider's products are checked", unit="s", label="phase residuals, s")]
    probe: Annotated[
        Seconds | None, about("the precision is compared with fp32", unit="s", label="phase precision probe, s")
    ] = None
    vendor_comparison: Annotated[
        Seconds | None,
        about("custom kernels are compared with the vendor's", unit="s", label="phase vendor comparison, s"),
    ] = None
    warm_up: Annotated[Seconds, about("steps that are discarded", unit="s", label="phase warm-up, s")]
    training: Annotated[Seconds, about("the timed region, validations excepted", unit="s", label="phase training, s")]
    data_wait: Annotated[
        Seconds, about("of training: waiting for data", unit="s", label="phase data wait (in training), s")
    ]
    exposed_communication: Annotated[
        Seconds,
        about(
            "of training: communication that computing did not hide",
            unit="s",
            label="phase exposed communication (in training), s",
        ),
    ]
    replay: Annotated[Seconds, about("steps are replayed in float64", unit="s", label="phase replay, s")]
    validation: Annotated[Seconds, about("validations between epochs", unit="s", label="phase validation, s")]
    ensemble: Annotated[Seconds, about("the models are evaluated together", unit="s", label="phase ensemble, s")]
    profile: Annotated[Seconds, about("a profiled stretch after the clock", unit="s", label="phase profile, s")]


class OperatorSeconds(Record):
    """Profiled time of a few steps by class of operator, on the first rank."""

    convolution: Annotated[Seconds, about("convolutions", unit="s")]
    gemm: Annotated[Seconds, about("matrix products", unit="s")]
    normalisation: Annotated[Seconds, about("normalisations", unit="s")]
    elementwise: Annotated[Seconds, about("element-wise operators", unit="s")]
    other: Annotated[Seconds, about("all other operators", unit="s")]


class TrainingRaw(Record):
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


class TrainingShares(Record):
    """What the mean rank did in the slowest rank's training time; the shares add up to 1."""

    compute: Annotated[float, about("busy time / training time", label="share of training, compute")]
    exposed_communication: Annotated[
        float,
        about("waits for communication / training time", label="share of training, exposed communication"),
    ]
    data_wait: Annotated[float, about("waits for data / training time", label="share of training, data wait")]
    idle: Annotated[float, about("1 - the other shares", label="share of training, idle")]


class PhaseShares(Record):
    """Seconds of a phase / the sum of all phases; phases within training are part of it."""

    start_up: Annotated[float | None, about("less the phases that it includes", label="share of phases, start-up")] = None
    staging: Annotated[float | None, about("staging", label="share of phases, staging")] = None
    set_up: Annotated[float, about("set-up", label="share of phases, set-up")]
    kernel_choice: Annotated[float | None, about("kernel choice", label="share of phases, kernel choice")] = None
    residuals: Annotated[float, about("residuals", label="share of phases, residuals")]
    probe: Annotated[float | None, about("precision probe", label="share of phases, precision probe")] = None
    vendor_comparison: Annotated[
        float | None, about("vendor comparison", label="share of phases, vendor comparison")
    ] = None
    warm_up: Annotated[float, about("warm-up", label="share of phases, warm-up")]
    training: Annotated[float, about("training", label="share of phases, training")]
    replay: Annotated[float, about("replay", label="share of phases, replay")]
    validation: Annotated[float, about("validation", label="share of phases, validation")]
    ensemble: Annotated[float, about("ensemble", label="share of phases, ensemble")]
    profile: Annotated[float, about("profile", label="share of phases, profile")]


class OperatorShares(Record):
    """Shares of the profiled time (HPC AI500 V2, Fig. 2)."""

    convolution: Annotated[float, about("convolutions", label="share of operators, convolution")]
    gemm: Annotated[float, about("matrix products", label="share of operators, GEMM")]
    normalisation: Annotated[float, about("normalisations", label="share of operators, normalisation")]
    elementwise: Annotated[float, about("element-wise operators", label="share of operators, element-wise")]
    other: Annotated[float, about("all other operators", label="share of operators, other")]


class CustomShare(Record):
    """How much of the network the custom kernels compute, where KERNELS is auto."""

    directions: Annotated[
        float, about("products of layers, direction by direction", label="products by custom kernels, share")
    ]
    normalisations: Annotated[float, about("batch norms", label="batch norms by custom kernels, share")]


class TrainingScores(Record):
    """Scores of models that are trained and evaluated together."""

    flops: Annotated[float, about("operations credited / training time (V3, Eq. 6)", unit="FLOP/s", csv=True)]
    valid_flops: Annotated[
        float,
        about(
            "flops x (quality / target)^PENALTY (V3, Valid FLOPS)",
            unit="FLOP/s",
            label="Valid FLOPS in GFLOP/s",
            scale=1e9,
            csv=True,
        ),
    ]
    quality: Annotated[float, about("quality of the ensemble at its end", label="quality of the ensemble", csv=True)]
    target: Annotated[float, about("quality target", label="target", csv=True)]
    reached: Annotated[bool, about("whether quality >= target")]
    member_mean: Annotated[float, about("mean of the models at their end", label="quality of the models, mean")]
    member_min: Annotated[float, about("of the worst model", label="quality of the models, min")]
    member_max: Annotated[float, about("of the best model", label="quality of the models, max")]
    member_best: Annotated[float, about("of any model in any epoch", label="quality of the models, best")]
    out_of_bag: Annotated[
        float | None,
        about(
            "each training sample evaluated by the models that did not train on it; n/a where there is none",
            label="quality out of bag",
        ),
    ]
    disagreement: Annotated[float | None, about("share of samples on which two models differ, mean over pairs")]
    time_to_quality: Annotated[
        float | None,
        about(
            "training and validation time until the slowest model reached the target",
            unit="s",
            label="time to quality, slowest model, s",
            absent="not reached",
            csv=True,
        ),
    ]
    time_to_quality_mean: Annotated[
        float | None,
        about("the same, mean over the models", unit="s", label="time to quality, mean, s", absent="not reached"),
    ]
    epochs_to_quality: Annotated[
        float | None,
        about(
            "epochs until the slowest model reached the target",
            label="epochs to quality, slowest model",
            absent="not reached",
        ),
    ]
    epochs_to_quality_mean: Annotated[
        float | None, about("the same, mean over the models", label="epochs to quality, mean", absent="not reached")
    ]
    efficiency: Annotated[
        float,
        about(
            "flops / ranks against the first test that differs in the grid only",
            label="parallel efficiency",
            csv=True,
        ),
    ]
    speedup: Annotated[
        float | None,
        about(
            "flops / those of the first test that differs in PRECISION, WIRE, COMPILE or KERNELS only",
            label="speed-up over the sweep's first case",
            absent="n/a, the first",
        ),
    ]
    quality_difference: Annotated[
        float | None,
        about("quality less that of the same test", label="quality, difference from that case", absent="n/a, the first"),
    ]
    precision_speed: Annotated[
        float | None,
        about(
            "fp32_seconds / seconds of the probe",
            label="speed of the precision in a probe, relative to fp32",
            absent="n/a, fp32",
        ),
    ]
    custom_share: Annotated[CustomShare | None, about("where KERNELS is auto")]
    custom_speed: Annotated[
        float | None,
        about(
            "vendor_seconds / custom_seconds of the vendor comparison",
            label="throughput by custom kernels / by the vendor's",
            absent="n/a, vendor",
        ),
    ]
    samples_per_second: Annotated[
        float, about("samples credited / training time", unit="1/s", label="samples/s")
    ]
    memory_share: Annotated[
        float, about("peak memory / planned memory", label="peak memory / planned memory")
    ]
    staging_rate: Annotated[
        float | None,
        about(
            "bytes copied to all nodes / seconds",
            unit="B/s",
            label="staging of data to the nodes, GB/s",
            scale=1e9,
            absent="n/a, not staged",
        ),
    ]
    busy_spread: Annotated[
        float, about("(max - min) / mean of the busy times", label="busy time of the ranks, (max - min) / mean")
    ]
    training_shares: Annotated[TrainingShares, about("shares of the training time")]
    phase_shares: Annotated[PhaseShares, about("shares of all phases")]
    operator_shares: Annotated[OperatorShares | None, about("shares of the profiled time; null where there is none")]
    roofline: Annotated[Roofline, about("the test under the measured roofline")]
    gradient_bandwidth: Annotated[GradientBandwidth, about("bytes per second that a rank sent to average gradients")]


class TrainingRow(Row):
    """A row of HPL of models that are trained and evaluated together."""

    phases: Annotated[Phases, about("seconds by phase, as in raw", unit="s")]
    scores: Annotated[TrainingScores, about("scores")]
    raw: Annotated[TrainingRaw, about("raw measurements")]


class StoppedTraining(Record):
    """What was measured of a test before the run was broken off."""

    where: Annotated[Literal["preparation", "training", "ensemble"], about("the stage in which it stopped")]
    dataset: Annotated[Dataset, about("the data")]
    samples: Annotated[Count, about("training samples of steps that changed the weights")]
    skipped_samples: Annotated[Count, about("samples of skipped steps")]
    executed_operations: Annotated[Count, about("operations as the layers' hooks counted them", unit="FLOP")]
    steps: Annotated[Count, about("optimiser steps of all models")]
    seconds: Annotated[Seconds, about("training time", unit="s")]

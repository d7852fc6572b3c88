"""Scores of tests that train models together."""

from typing import Annotated

from hpcai.record.phases import PhaseShares
from hpcai.record.record import Record, about
from hpcai.record.roofline import GradientBandwidth, Roofline


class TrainingShares(Record, kw_only=True):
    """What the mean rank did in the slowest rank's training time; the shares add up to 1."""

    compute: Annotated[float, about("busy time / training time", label="share of training, compute")]
    exposed_communication: Annotated[
        float,
        about("waits for communication / training time", label="share of training, exposed communication"),
    ]
    data_wait: Annotated[float, about("waits for data / training time", label="share of training, data wait")]
    idle: Annotated[float, about("1 - the other shares", label="share of training, idle")]


class OperatorShares(Record, kw_only=True):
    """Shares of the profiled time (HPC AI500 V2, Fig. 2)."""

    convolution: Annotated[float, about("convolutions", label="share of operators, convolution")]
    gemm: Annotated[float, about("matrix products", label="share of operators, GEMM")]
    normalisation: Annotated[float, about("normalisations", label="share of operators, normalisation")]
    elementwise: Annotated[float, about("element-wise operators", label="share of operators, element-wise")]
    other: Annotated[float, about("all other operators", label="share of operators, other")]


class CustomShare(Record, kw_only=True):
    """How much of the network the custom kernels compute, where KERNELS is auto."""

    directions: Annotated[
        float, about("products of layers, direction by direction", label="products by custom kernels, share")
    ]
    normalisations: Annotated[float, about("batch norms", label="batch norms by custom kernels, share")]


class TrainingScores(Record, kw_only=True):
    """Scores of models that are trained and evaluated together."""

    flops: Annotated[
        float,
        about(
            "operations credited / training time (V3, Eq. 6)",
            unit="FLOP/s",
            label="FLOPS in GFLOP/s",
            scale=1e9,
            csv=True,
        ),
    ]
    valid_flops: Annotated[
        float,
        about(
            "flops x (quality / target)^PENALTY (V3, Valid FLOPS); target / quality where smaller is better",
            unit="FLOP/s",
            label="Valid FLOPS in GFLOP/s",
            scale=1e9,
            csv=True,
        ),
    ]
    quality: Annotated[float, about("quality of the ensemble at its end", label="quality of the ensemble", csv=True)]
    target: Annotated[float, about("quality target", label="target", csv=True)]
    reached: Annotated[bool, about("whether the quality is at least as good as the target")]
    member_mean: Annotated[float, about("mean of the models at their end", label="quality of the models, mean")]
    member_min: Annotated[float, about("the smallest of the models at their end", label="quality of the models, min")]
    member_max: Annotated[float, about("the largest of the models at their end", label="quality of the models, max")]
    member_best: Annotated[float, about("the best of any model in any epoch", label="quality of the models, best")]
    out_of_bag: Annotated[
        float | None,
        about(
            "each training sample evaluated by the models that did not train on it",
            label="quality out of bag",
            absent="n/a, none left out",
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
        about(
            "quality less that of the same test", label="quality, difference from that case", absent="n/a, the first"
        ),
    ]
    precision_speed: Annotated[
        float | None,
        about(
            "fp32_seconds / seconds of the probe",
            label="speed of the precision in a probe / of fp32",
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
    samples_per_second: Annotated[float, about("samples credited / training time", unit="1/s", label="samples/s")]
    memory_share: Annotated[float, about("peak memory / planned memory", label="peak memory / planned memory")]
    staging_rate: Annotated[
        float | None,
        about(
            "bytes copied to all nodes / seconds",
            unit="B/s",
            label="staging of data to the nodes, GB/s",
            scale=1e9,
            absent="",
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

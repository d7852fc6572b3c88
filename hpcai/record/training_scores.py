"""Scores of tests that train models together."""

from typing import Annotated

from hpcai.record.all_reduce import GradientCost
from hpcai.record.energy import FlopsPerWatt, JoulesPerSample, JoulesPerTraining, MeanWatts
from hpcai.record.exchange import ExchangeCost
from hpcai.record.phases import PhaseShares
from hpcai.record.pipeline import PipelineCost
from hpcai.record.processor import RankBound
from hpcai.record.published_figures import PublishedFigures
from hpcai.record.record import Record, about
from hpcai.record.roofline import GradientBandwidth, Roofline
from hpcai.record.sample_loading import ByteRate, SampleRate

Apc = Annotated[
    float | None,
    about(
        "P x Q x NB x operations of a sample (of a search, in its first network), rule model: amount of parallel "
        "computation of a step (V3, Eq. 3, 4)",
        unit="FLOP",
        label="APC by rule model in GFLOP",
        scale=1e9,
    ),
]
ApcHpcai500 = Annotated[
    float | None,
    about("the same by rule hpcai500", unit="FLOP", label="APC by rule hpcai500 in GFLOP", scale=1e9),
]

ModelsPerMinute = Annotated[
    float | None,
    about(
        "60 x models.reached / energy.seconds: models trained to the target, from the first start to the last end "
        "(throughput of MLPerf HPC)",
        unit="1/min",
        label="models that reached the target per minute",
        csv=True,
    ),
]


class TrainingShares(Record, kw_only=True):
    """Shares of the mean rank's activities in the slowest rank's training time; they add up to 1."""

    compute: Annotated[float, about("mean busy time / Time", label="share of training, compute")]
    exposed_communication: Annotated[
        float,
        about("mean exposed communication / Time", label="share of training, exposed communication"),
    ]
    data_wait: Annotated[float, about("mean data wait / Time", label="share of training, data wait")]
    idle: Annotated[
        float, about("1 - the other shares: waiting for the slowest rank at the end", label="share of training, idle")
    ]


class OperatorShares(Record, kw_only=True):
    """Shares of the profiled time (HPC AI500 V2, Fig. 2)."""

    convolution: Annotated[float, about("convolutions / all operators", label="share of operators, convolution")]
    gemm: Annotated[float, about("matrix products / all operators", label="share of operators, GEMM")]
    normalisation: Annotated[float, about("normalisations / all operators", label="share of operators, normalisation")]
    elementwise: Annotated[
        float, about("element-wise operators / all operators", label="share of operators, element-wise")
    ]
    other: Annotated[float, about("all other operators / all operators", label="share of operators, other")]


class CustomShare(Record, kw_only=True):
    """Shares of the network computed by custom kernels, if KERNELS is auto."""

    directions: Annotated[
        float,
        about(
            "products (layers x directions) by custom kernels / all products", label="products by custom kernels, share"
        ),
    ]
    normalisations: Annotated[
        float,
        about(
            "batch norms, RMS norms and attention by custom kernels / all of them",
            label="norms and attention by custom kernels, share",
        ),
    ]


class TrainingScores(Record, kw_only=True):
    """Scores of models that are trained and evaluated together."""

    flops: Annotated[
        float,
        about(
            "operations.credited / Time (V3, Eq. 6)",
            unit="FLOP/s",
            label="FLOPS in GFLOP/s",
            scale=1e9,
            csv=True,
        ),
    ]
    valid_flops: Annotated[
        float,
        about(
            "flops x (quality / target)^PENALTY (V2, section 4; V3); target / quality where smaller is better",
            unit="FLOP/s",
            label="Valid FLOPS in GFLOP/s",
            scale=1e9,
            csv=True,
        ),
    ]
    quality: Annotated[
        float, about("quality of the ensemble after the last epoch", label="quality of the ensemble", csv=True)
    ]
    target: Annotated[float, about("quality target", label="target", csv=True)]
    reached: Annotated[bool, about("whether the quality is at least as good as the target")]
    member_mean: Annotated[
        float, about("mean quality of the models after the last epoch", label="quality of the models, mean")
    ]
    member_min: Annotated[
        float, about("smallest of the models after the last epoch", label="quality of the models, min")
    ]
    member_max: Annotated[
        float, about("largest of the models after the last epoch", label="quality of the models, max")
    ]
    member_best: Annotated[float, about("best of all models and validations", label="quality of the models, best")]
    out_of_bag: Annotated[
        float | None,
        about(
            "quality on training samples, each evaluated by the models that did not train on it",
            label="quality out of bag",
            absent="n/a, none left out",
        ),
    ]
    disagreement: Annotated[float | None, about("pairwise disagreement of the models; null for P = 1")]
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
            "weak scaling: FLOPS per rank / that of the first test that differs only in GROUPS, DEGREE or MAPPING",
            label="parallel efficiency",
            csv=True,
        ),
    ]
    speedup: Annotated[
        float | None,
        about(
            "FLOPS / those of the first test that differs only in PRECISION, WIRE, ALLREDUCE, COMPILE or KERNELS (V3)",
            label="speed-up over the sweep's first case",
            absent="n/a, the first",
        ),
    ]
    quality_difference: Annotated[
        float | None,
        about(
            "quality - quality of that test",
            label="quality difference to the sweep's first case",
            absent="n/a, the first",
        ),
    ]
    precision_speed: Annotated[
        float | None,
        about(
            "fp32_seconds / seconds of the precision probe",
            label="speed of the precision in a probe / of fp32",
            absent="n/a, fp32",
        ),
    ]
    custom_share: Annotated[CustomShare | None, about("KERNELS auto only: share of custom kernels")]
    custom_speed: Annotated[
        float | None,
        about(
            "vendor_seconds / custom_seconds of the vendor comparison",
            label="throughput by custom kernels / by the vendor's",
            absent="n/a, vendor",
        ),
    ]
    samples_per_second: Annotated[float, about("N / Time", unit="1/s", label="samples/s")]
    loaded_per_second: SampleRate = None
    loaded_bytes_per_second: ByteRate = None
    memory_share: Annotated[
        float,
        about(
            "memory.peak_bytes / memory.planned_bytes; on GPUs memory of the GPU", label="peak memory / planned memory"
        ),
    ]
    staging_rate: Annotated[
        float | None,
        about(
            "staging.bytes / staging.seconds",
            unit="B/s",
            label="staging of data to the nodes, GB/s",
            scale=1e9,
            absent="",
        ),
    ]
    busy_spread: Annotated[
        float, about("(max - min) / mean of the busy times", label="busy time of the ranks, (max - min) / mean")
    ]
    training_shares: Annotated[TrainingShares, about("shares of Time, mean of the ranks")]
    phase_shares: Annotated[PhaseShares, about("seconds of a phase / all phases")]
    operator_shares: Annotated[OperatorShares | None, about("shares of the profiled time; null where there is none")]
    roofline: Annotated[Roofline, about("the test under the measured roofline")]
    gradient_bandwidth: Annotated[GradientBandwidth, about("bandwidth of the gradient averaging")]
    apc: Apc = None
    apc_hpcai500: ApcHpcai500 = None
    published: Annotated[
        PublishedFigures | None, about("ResNet-50 at 224 x 224 only: figures by the papers' constant")
    ] = None
    gradient_cost: Annotated[
        GradientCost | None, about("DEGREE above 1 only: cost of the gradient averaging")
    ] = None
    exchange_cost: Annotated[
        ExchangeCost | None, about("PARALLEL tensor and mixed only: cost of the exchange of channels")
    ] = None
    pipeline_cost: Annotated[
        PipelineCost | None, about("PARALLEL pipeline and mixed only: cost of the pipeline")
    ] = None
    models_per_minute: ModelsPerMinute = None
    mean_watts: MeanWatts = None
    valid_flops_per_watt: FlopsPerWatt = None
    joules_per_sample: JoulesPerSample = None
    joules_per_training: JoulesPerTraining = None
    rank_bound: RankBound = None

"""Record of the scores of a search."""

from typing import Annotated

from hpcai.formulas.aiperf import ScorePoint
from hpcai.record.energy import JoulesPerSample, MeanWatts
from hpcai.record.processor import RankBound
from hpcai.record.record import Count, Record, about
from hpcai.record.sample_loading import ByteRate, SampleRate
from hpcai.record.training_scores import Apc, ApcHpcai500
from hpcai.record.trial import End


class SearchShares(Record, kw_only=True):
    """Mean seconds of the groups / duration of the search."""

    training: Annotated[
        float, about("mean training time of the groups / duration", label="share of the search, training")
    ]
    validation: Annotated[
        float, about("mean validation time of the groups / duration", label="share of the search, validation")
    ]
    warmup: Annotated[
        float,
        about(
            "mean warm-up time of the groups, of the shapes of new networks / duration",
            label="share of the search, warm-up",
        ),
    ]
    idle: Annotated[
        float,
        about(
            "1 - the other shares: waiting for an answer, a proposal, weights or other groups",
            label="share of the search, idle",
        ),
    ]


class SearchScores(Record, kw_only=True):
    """Scores of a search."""

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
    ops: Annotated[
        float,
        about(
            "operations of training and validation, rule aiperf / duration (AIPerf)",
            unit="op/s",
            label="OPS, whole search, 10^9 per second",
            scale=1e9,
            csv=True,
        ),
    ]
    highest_ops: Annotated[
        float | None,
        about(
            "OPS over time, highest after least_seconds: AIPerf's major score, by which searches are ranked",
            unit="op/s",
            label="OPS, highest, 10^9 per second",
            scale=1e9,
            csv=True,
        ),
    ] = None
    highest_ops_seconds: Annotated[
        float | None, about("time of the highest OPS", unit="s", label="OPS, time of the highest, s")
    ] = None
    regulated_score: Annotated[
        float,
        about(
            "-ln(error) x OPS, highest after least_seconds (AIPerf)",
            unit="op/s",
            label="regulated score, highest, 10^9",
            scale=1e9,
            csv=True,
        ),
    ]
    regulated_seconds: Annotated[
        float, about("time of the highest regulated score", unit="s", label="regulated score, time of the highest, s")
    ]
    least_seconds: Annotated[
        float, about("time from which the score counts", unit="s", label="regulated score, counted from, s")
    ]
    regulated_last: Annotated[
        float,
        about("regulated score at the end of the search", unit="op/s", label="regulated score, last, 10^9", scale=1e9),
    ]
    interval: Annotated[float, about("time between two points of the series", unit="s")]
    training_operations: Annotated[
        Count,
        about(
            "operations of training credited, rule aiperf",
            unit="op",
            label="operations of training, rule aiperf, 10^9",
            scale=1e9,
        ),
    ]
    validation_operations: Annotated[
        Count,
        about(
            "operations of validation credited, rule aiperf",
            unit="op",
            label="operations of validation, rule aiperf, 10^9",
            scale=1e9,
        ),
    ]
    quality: Annotated[
        float, about("best validation accuracy of any trial", label="quality of the best trial", csv=True)
    ]
    target: Annotated[float, about("quality target", label="target", csv=True)]
    reached: Annotated[bool, about("whether a trial reached the target")]
    time_to_quality: Annotated[
        float | None,
        about(
            "time until a trial reached the target",
            unit="s",
            label="time to quality, s",
            absent="not reached",
            csv=True,
        ),
    ]
    operations_to_quality: Annotated[
        Count | None,
        about(
            "operations until a trial reached the target",
            unit="op",
            label="operations to quality, 10^9",
            scale=1e9,
            absent="not reached",
        ),
    ]
    efficiency: Annotated[
        float,
        about(
            "weak scaling: FLOPS per rank / that of the first test that differs only in GROUPS, DEGREE or MAPPING",
            label="parallel efficiency of FLOPS",
        ),
    ]
    ops_efficiency: Annotated[
        float | None,
        about(
            "weak scaling: OPS of the whole search per rank / that of the first test that differs only in GROUPS, "
            "DEGREE or MAPPING",
            label="parallel efficiency",
            csv=True,
        ),
    ] = None
    training_rate: Annotated[
        float | None,
        about(
            "operations.credited / mean training time of the groups",
            unit="FLOP/s",
            label="GFLOP/s while training",
            scale=1e9,
            absent="n/a, no training",
        ),
    ]
    samples_per_second: Annotated[float, about("N / Time", unit="1/s", label="samples/s")]
    loaded_per_second: SampleRate = None
    loaded_bytes_per_second: ByteRate = None
    idle_share: Annotated[float, about("shares.idle", csv=True)]
    shares: Annotated[SearchShares, about("shares of the duration of the search")]
    coordinator_share: Annotated[
        float, about("busy time of the coordinator / duration", label="coordinator, busy share of the search")
    ]
    apc: Apc = None
    apc_hpcai500: ApcHpcai500 = None
    series: Annotated[tuple[ScorePoint, ...], about("the score over time")]
    ends: Annotated[dict[End, Count], about("trials by how they ended")]
    failed_trials: Annotated[Count, about("trials that failed")]
    precision_speed: Annotated[
        float | None,
        about(
            "fp32_seconds / seconds of the precision probe",
            label="speed of the precision in a probe / of fp32",
            absent="n/a, fp32",
        ),
    ]
    custom_speed: Annotated[
        float | None,
        about(
            "vendor_seconds / custom_seconds of the vendor comparison",
            label="throughput by custom kernels / by the vendor's",
            absent="n/a, vendor",
        ),
    ]
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
            absent="n/a, not staged",
        ),
    ]
    mean_watts: MeanWatts = None
    joules_per_sample: JoulesPerSample = None
    rank_bound: RankBound = None

"""Records of the stages of models that are trained by a pipeline."""

from typing import Annotated

from hpcai.record.record import Count, Positive, Record, Seconds, about


class StageWork(Record, kw_only=True):
    """One stage of all models."""

    operations: Annotated[Count, about("operations executed by its ranks", unit="FLOP")]
    micro_batches: Annotated[Count, about("micro-batches that its ranks trained, of all models")]
    busy: Annotated[Seconds, about("mean time of its ranks, neither waiting nor communicating", unit="s")]
    waiting: Annotated[Seconds, about("mean time of its ranks in transfers between stages, waits included", unit="s")]
    peak_bytes: Annotated[
        Positive, about("peak memory of its ranks after training: resident, on GPUs what torch held there", unit="B")
    ]


class Pipelined(Record, kw_only=True):
    """What the stages of the models did in the timed training steps."""

    bytes: Annotated[float, about("bytes that a rank sent to other stages, mean over the ranks", unit="B")]
    stages: Annotated[tuple[StageWork, ...], about("the stages, in the order of the layers")]


class PipelineCost(Record, kw_only=True):
    """What the pipeline costs a rank."""

    bubble: Annotated[
        float, about("mean of pipeline.stages.waiting / Time", label="share of training, bubble of the pipeline")
    ]
    expected_bubble: Annotated[
        float,
        about(
            "(stages - 1) / (CHUNKS + stages - 1) (Huang et al., GPipe, 2019, section 2.3)",
            label="share of training, bubble by formula",
        ),
    ]
    sent: Annotated[
        float,
        about(
            "pipeline.bytes / steps of a model",
            unit="B",
            label="activations that a rank sends in a step, MB",
            scale=1e6,
        ),
    ]
    needed: Annotated[
        float,
        about(
            "bytes that cross between the stages by formula (docs/PARALLEL.md)",
            unit="B",
            label="activations that a rank has to send in a step, MB",
            scale=1e6,
        ),
    ]

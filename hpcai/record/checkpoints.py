"""Record of the checkpoints of a test."""

from typing import Annotated

from hpcai.record.record import Count, Record, about


class Checkpoints(Record, kw_only=True):
    """Checkpoints of all models of a test; the trainings pause for each."""

    pauses: Annotated[Count, about("pauses of all models, with those where a job was stopped")]
    resumed: Annotated[Count, about("models that went on from a checkpoint, once for each time")]


WrittenCheckpoints = Annotated[Checkpoints | None, about("checkpoints of the models; null where CHECKPOINT is 0")]

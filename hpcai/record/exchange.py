"""Records of the exchange of channels between the ranks of a tensor-parallel model."""

from typing import Annotated

from hpcai.record.record import Record, Seconds, about


class Exchanged(Record, kw_only=True):
    """Channels that the ranks of a model exchanged in the timed training steps, means over the ranks."""

    bytes: Annotated[float, about("bytes sent", unit="B")]
    seconds: Annotated[Seconds, about("time of exchanges, packing and waiting included", unit="s")]


class ExchangeCost(Record, kw_only=True):
    """What the exchange of channels costs a rank."""

    sent: Annotated[
        float,
        about(
            "exchanged.bytes / steps of a model", unit="B", label="channels that a rank sends in a step, MB", scale=1e6
        ),
    ]
    needed: Annotated[
        float,
        about(
            "bytes that the layers need by formula (docs/PARALLEL.md)",
            unit="B",
            label="channels that a rank has to send in a step, MB",
            scale=1e6,
        ),
    ]
    seconds: Annotated[float, about("exchanged.seconds / Time", label="share of training, exchange of channels")]

"""Record of figures by the papers' constant."""

from typing import Annotated

from hpcai.record.record import Record, about


class PublishedFigures(Record, kw_only=True):
    """Figures by the papers' constant of 23.0 GFLOP an image, for comparison with published rows only."""

    flops: Annotated[
        float,
        about(
            "N x 23.0 x 10^9 / Time",
            unit="FLOP/s",
            label="FLOPS by the published constant, GFLOP/s",
            scale=1e9,
        ),
    ]
    valid_flops: Annotated[
        float,
        about(
            "published.flops x (quality / target)^10, which published rows of the ranking follow",
            unit="FLOP/s",
            label="Valid FLOPS by the published constant, GFLOP/s",
            scale=1e9,
        ),
    ]

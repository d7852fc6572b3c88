"""Qualities of the models of a test, one by one and as an ensemble, for every workload that trains models."""

from typing import NamedTuple


class Qualities(NamedTuple):
    """Qualities of the ensemble and of its models.

    out_of_bag and disagreement are None of one model. evaluated: how many things a quality is the share of.
    unconfirmed: figures of the ensemble that a second implementation counts otherwise. beyond: the most standard errors
    by which a quality is better than the ceiling, where ceiling and quality are of the same things; else None.
    """

    quality: float
    member_mean: float
    member_min: float
    member_max: float
    member_best: float
    out_of_bag: float | None
    disagreement: float | None
    evaluated: int
    unconfirmed: int = 0
    beyond: float | None = None

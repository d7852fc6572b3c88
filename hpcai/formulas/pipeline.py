"""Formulas of pipeline parallelism."""


def expected_bubble(stages: int, chunks: int) -> float:
    """Share of a step in which a stage waits, with stages of equal times and transfers that take none.

    Huang et al., GPipe, 2019, section 2.3.
    """
    return (stages - 1) / (chunks + stages - 1)

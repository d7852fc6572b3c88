"""Whether reported figures of an ensemble agree with those counted anew, of all samples or of some drawn."""

from math import sqrt

SAMPLING = 6.0  # standard errors by which a share of samples drawn may differ from that of all; by chance below 1e-8


def confirmed(found: int, drawn: int, reported: int, whole: int, scale: int = 1, near: int = 0) -> bool:
    """Whether a sum over samples, `found` of those `drawn` and `reported` of the `whole`, is the same but for chance.

    scale: the most that one sample adds. near: by how much the sums may differ where all samples are there.
    """
    if drawn == whole:
        return abs(found - reported) <= near
    share = min(max(reported / (whole * scale), 0.0), 1.0)
    error = sqrt(drawn * share * (1 - share)) + 1
    return abs(found / scale - drawn * share) <= SAMPLING * error + near / scale

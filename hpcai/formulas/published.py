"""Published figures of machines, and what follows from them by the papers' constant."""

from dataclasses import dataclass

from hpcai.formulas import score
from hpcai.formulas.official_rules import IMAGES


@dataclass(frozen=True)
class Published:
    """A row of the literature, as it was published; None where nothing is. Rates are per second, not scaled.

    minutes: of the whole training. source: where it was published. note: what differs elsewhere.
    """

    site: str
    year: str
    source: str
    system: str = ""
    accelerators: int | None = None
    precision: str = ""
    flops: float | None = None
    valid_flops: float | None = None
    ops: float | None = None
    minutes: float | None = None
    quality: float | None = None
    note: str = ""

    @property
    def recomputed(self) -> float | None:
        """Valid FLOPS by 23.0 GFLOP an image, 90 epochs of ImageNet, (top-1 / 0.763)^10; None without time or top-1."""
        if self.minutes is None or self.quality is None:
            return None
        rate = score.published_flops(IMAGES.epochs * IMAGES.samples[0], self.minutes * 60)
        return score.valid_flops(rate, self.quality / IMAGES.target, score.PUBLISHED_PENALTY)

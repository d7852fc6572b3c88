"""Findings about what arrived at a network: samples, order, recipe, validations; of a rank, and of all ranks."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from hpcai.formulas.score import LARGEST
from hpcai.frozen.samples import Sample
from hpcai.record.content import DataContent, Delivered
from hpcai.record.preflight import Worst as WorstRecord

if TYPE_CHECKING:
    from hpcai.comm.grid import Group

Worst = tuple[float, str]
COUNTS = ("samples", "positions", "misplaced", "steps", "validations", "differing", "recounted", "miscounted")


@dataclass
class ContentFindings:
    """What a rank found of its trainings so far."""

    samples: int = 0  # compared with their source
    deviation: Worst = (0.0, "")
    positions: int = 0  # of an epoch whose sample was compared with the second implementation's
    misplaced: int = 0
    steps: int = 0  # whose recipe was compared
    recipe: Worst = (0.0, "")
    validations: int = 0
    differing: int = 0  # of other content than the first
    content: int | None = None  # sum over the samples of a validation, of the first one
    recounted: int = 0  # validations whose correct samples were counted anew
    miscounted: int = 0  # of these, with another number than was reported

    def add(self, others: "ContentFindings") -> None:
        """Add those of another training of this rank."""
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(others, name))
        self.deviation = max(self.deviation, others.deviation)
        self.recipe = max(self.recipe, others.recipe)

    def restore(self, others: "ContentFindings") -> None:
        """Go on from those of a checkpoint, or from before a pass that was not whole."""
        vars(self).update(vars(others))

    def saw(self, content: int) -> None:
        """Count a validation by its content."""
        self.content = content if self.content is None else self.content
        self.validations += 1
        self.differing += content != self.content

    def recount(self, reported: int, recounted: int) -> None:
        """Compare the number of correct samples of a validation with that of a second count."""
        self.recounted += 1
        self.miscounted += reported != recounted

    def compare(
        self, sample: Sample, top: int, x: NDArray[np.float32] | None, y: NDArray[np.generic] | None, where: str
    ) -> None:
        """Compare rows of a sample that arrived, from row `top` on, with its source; None did not arrive."""
        self.samples += 1
        if x is None or y is None:
            found = (LARGEST, f"{where}: missing")
        elif not np.array_equal(y, sample.y):
            found = (LARGEST, f"{where}: label")
        else:
            found = (_share(x, sample.x[:, top : top + x.shape[1]], sample.bound), f"{where}: values")
        self.deviation = max(self.deviation, found)


def _share(x: NDArray[np.float32], expected: NDArray[np.float64], bound: NDArray[np.float64]) -> float:
    """Largest difference / bound; differences of nothing have none, those that are no number the largest."""
    if x.shape != expected.shape:
        return LARGEST
    difference = np.abs(x.astype(np.float64) - expected)
    shares = np.divide(difference, bound[:, None, None], out=np.zeros_like(difference), where=difference != 0)
    return min(LARGEST, float(np.nan_to_num(shares, nan=LARGEST, posinf=LARGEST).max(initial=0.0)))


def delivered(own: ContentFindings, data: DataContent, group: "Group") -> Delivered:
    """The findings of all active ranks, the same on each. Collective over these."""
    active, across = group.active, group.across
    deviation, recipe = (active.allreduce(worst, MPI.MAX) for worst in (own.deviation, own.recipe))
    others = across.allreduce(own.content or 0, MPI.MIN) != across.allreduce(own.content or 0, MPI.MAX)
    counts = {name: int(active.allreduce(getattr(own, name))) for name in ("samples", "positions", "misplaced")}
    return Delivered(
        **counts,
        deviation=WorstRecord(value=deviation[0], where=deviation[1]),
        recipe_steps=int(active.allreduce(own.steps * group.leader)),
        recipe=WorstRecord(value=recipe[0], where=recipe[1]),
        validations=int(active.allreduce(own.validations * group.leader)),
        differing_validations=int(active.allreduce(own.differing + others)),
        recounted_validations=int(active.allreduce(own.recounted * group.leader)),
        miscounted_validations=int(active.allreduce(own.miscounted * group.leader)),
        data=data,
    )

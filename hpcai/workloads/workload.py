"""Declaration of a workload: all its properties, so that no other code compares a section's name."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from hpcai.inputfile.key import SectionDeclaration

MOST_OF_TARGET = 1000.0  # as quality 1 is of the smallest TARGET
V = TypeVar("V", int, float)


@dataclass(frozen=True)
class Quality:
    """Name, range and direction of a workload's quality."""

    name: str
    larger_is_better: bool = True
    lowest: float = 0.0
    highest: float = 1.0

    @property
    def is_share(self) -> bool:
        """Whether it is a share of evaluated things, from 0 to 1."""
        return (self.lowest, self.highest) == (0.0, 1.0)

    def best(self, values: Iterable[V]) -> V:
        """The best of some values."""
        return max(values) if self.larger_is_better else min(values)

    def reached(self, quality: float, target: float) -> bool:
        """Whether a quality is at least as good as the target."""
        return quality >= target if self.larger_is_better else quality <= target

    def excess(self, quality: float, bound: float) -> float:
        """By how much a quality is better than a bound; negative if it is worse."""
        return quality - bound if self.larger_is_better else bound - quality

    def share_of_target(self, quality: float, target: float) -> float:
        """What `quality/target` prints: at least 1 where the target is reached, whatever the direction.

        quality / target where larger is better, else target / quality, MOST_OF_TARGET where that is larger.
        """
        if self.larger_is_better:
            return quality / target
        return target / quality if quality * MOST_OF_TARGET > target else MOST_OF_TARGET


@dataclass(frozen=True)
class Figure:
    """A score of the best row printed in the summary: its printed name and unit."""

    name: str
    score: str
    scale: float = 1.0


APC = Figure("apc_gflop", "apc", 1e9)  # of workloads that train


@dataclass(frozen=True)
class Workload:
    """A section of the input, its digit of T/V, and what its tests are called and ranked by.

    digit: of T/V; 0 for a workload that makes a table and no row. rows: of such a workload the list of the result that
    has the table's rows. unit: what samples are called. ranked_by: the score that lists order by; by the quality in its
    direction, by others the larger first. figures: of the best row, in the summary. repeated: the scores whose spread
    over repetitions is printed. columns: by name, columns of a row whose meaning differs in this workload. trains:
    whether its tests train networks on a dataset. ensembles: whether P models make one prediction, so that tests of one
    model (HPC AI500 V2) and of several (V3) have separate lists. divides: whether a group may divide its model
    otherwise than by data (PARALLEL). outlasts: whether its tests go on without groups that have lost a rank. compiles:
    kernels, by their folders, that its tests always need; compiles_if_custom: those that only custom KERNELS need.

    The folder of the workload has the modules record, checks, claims, lines, plan and measure and, where they are
    needed, data, preflight, files, plots and literature (CONTRIBUTING.md). The registry imports each when it is asked
    for, so that a result is verified without torch.
    """

    section: SectionDeclaration
    digit: int = 0
    rows: str = ""
    unit: str = "samples"
    quality: Quality | None = None
    ranked_by: str = ""
    figures: tuple[Figure, ...] = ()
    repeated: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    trains: bool = False
    ensembles: bool = False
    divides: bool = False
    outlasts: bool = False
    compiles: tuple[str, ...] = ()
    compiles_if_custom: tuple[str, ...] = ()

    def rank(self, score: float) -> float:
        """Sort key of rows by `ranked_by`: larger is better."""
        of_quality = self.quality is not None and self.ranked_by == "quality"
        return -score if of_quality and self.quality and not self.quality.larger_is_better else score

    @property
    def name(self) -> str:
        """The section's name."""
        return self.section.name

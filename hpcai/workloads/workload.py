"""The declaration of a workload: all that is special about it, so that nothing else compares a section's name."""

from dataclasses import dataclass

from hpcai.inputfile.key import SectionDeclaration


@dataclass(frozen=True)
class Quality:
    """What the quality of a workload is called, and in which range and direction it lies."""

    name: str
    larger_is_better: bool = True
    lowest: float = 0.0
    highest: float = 1.0

    def share_of_target(self, quality: float, target: float) -> float:
        """What `quality/target` prints: at least 1 where the target is reached, whatever the direction."""
        return quality / target if self.larger_is_better else target / quality


@dataclass(frozen=True)
class Figure:
    """A score of the best row that the summary prints: its printed name, and the unit of what is printed."""

    name: str
    score: str
    scale: float = 1.0


@dataclass(frozen=True)
class Workload:
    """A section of the input, its digit of T/V, and what its tests are called and ranked by.

    digit: of T/V; 0 for a workload that makes a table and no row. rows: of such a workload the list of the result that
    has the table's rows. unit: what samples are called. ranked_by: the score that lists order by. figures: of the best
    row, in the summary. repeated: the scores whose spread over repetitions is printed. trains: whether its tests train
    networks on a dataset. compiles: whether its tests always need compiled kernels.

    The folder of the workload has the modules record, checks, claims, lines, plan and measure; the registry imports
    each when it is asked for, so that a result is verified without torch.
    """

    section: SectionDeclaration
    digit: int = 0
    rows: str = ""
    unit: str = "samples"
    quality: Quality | None = None
    ranked_by: str = ""
    figures: tuple[Figure, ...] = ()
    repeated: tuple[str, ...] = ()
    trains: bool = False
    compiles: bool = False

    @property
    def name(self) -> str:
        """The section's name."""
        return self.section.name

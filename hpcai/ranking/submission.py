"""What is kept of a result: a line for each list that it is in, or why it is in none."""

from dataclasses import dataclass

VERIFIED, REPORTED, LITERATURE = "verified", "from report", "literature"
PER_WATT = "per-watt"
MOST_REASON = 800  # characters of a reason


@dataclass(frozen=True)
class ListKey:
    """The list of a line: results are compared only within one.

    origin: VERIFIED, REPORTED or LITERATURE. subject: the dataset, or the ceiling of a table. size: V2 of one model, V3
    of an ensemble, empty of workloads without that difference. target: TARGET and PENALTY that Valid FLOPS depends on,
    where they are not the official ones. by: PER_WATT where Valid FLOPS per watt ranks.
    """

    origin: str
    section: str
    subject: str
    status: str = ""
    level: str = ""
    size: str = ""
    precision: str = ""
    target: str = ""
    by: str = ""

    @property
    def name(self) -> str:
        """The name of the list, by which --list chooses."""
        origin = "" if self.origin == VERIFIED else self.origin.replace(" ", "-")
        parts = (origin, self.section, self.subject, self.status, self.level, self.size, self.precision)
        return "/".join(filter(None, (*parts, self.target, self.by)))


@dataclass(frozen=True)
class Line:
    """A line of a list. Rates are per second, shares are not in percent; None and empty: not measured.

    run: the fingerprint of its run, index: the number of its test there, of a report of its row; None of ceilings.
    score: orders the list, larger first. seconds: Time, by which equal scores are ordered. recomputed: Valid FLOPS by
    the papers' constant, of literature. ceiling: of a rank. watts: mean power of what `covers` names.
    source: the file, or the publication.
    """

    key: ListKey
    score: float
    site: str
    verdict: str
    source: str
    seconds: float = 0.0
    system: str = ""
    accelerators: int | None = None
    ranks: int | None = None
    p: int | None = None
    q: int | None = None
    network: str = ""
    rule: str = ""
    framework: str = ""
    epochs: int | None = None
    precision: str = ""
    flops: float | None = None
    valid_flops: float | None = None
    recomputed: float | None = None
    ops: float | None = None
    regulated_score: float | None = None
    quality: float | None = None
    time_to_quality: float | None = None
    tokens_per_second: float | None = None
    efficiency: float | None = None
    ceiling: float | None = None
    ceiling_share: float | None = None
    watts: float | None = None
    covers: str = ""
    valid_flops_per_watt: float | None = None
    cv: float | None = None
    date: str = ""
    version: str = ""
    note: str = ""
    run: str = ""
    index: int | None = None


@dataclass(frozen=True)
class Submission:
    """A sound result: its lines, and the digest by which the same run is known again; `digest`: SHA-256 of the file.

    further: digests by which it is known as well: the fingerprint in a file of an older schema, which its report has
    too, and that of the measurements, whatever header stands above them.
    """

    path: str
    fingerprint: str
    lines: tuple[Line, ...]
    origin: str = VERIFIED
    digest: str = ""
    further: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The digests by which the same run is known again."""
        return [*filter(None, (self.fingerprint, *self.further))]


@dataclass(frozen=True)
class Apart:
    """What is not ranked, and why."""

    path: str
    reason: str

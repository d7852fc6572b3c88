"""The page: lists, what is not ranked, and details, made by the template; nothing in it is loaded from elsewhere."""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from hpcai import __version__
from hpcai.errors import InputError
from hpcai.ranking.lists import Ranked
from hpcai.ranking.page.details import Detail, Task, detail
from hpcai.ranking.page.rows import APART, Listed, listed, row_name
from hpcai.ranking.pool import mapped
from hpcai.ranking.submission import LITERATURE, MOST_REASON, REPORTED, VERIFIED, Apart, Submission
from hpcai.results.cells import cell

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = Path(__file__).parent
PLOTTED, PLOTTED_OF_LIST = 300, 20  # rows of the page, and first rows of a list, that have plots
ENDED = Detail(note="no details: the process that read the file was ended, by lack of memory or a signal")
TITLES = {VERIFIED: "Verified results", REPORTED: "From reports", LITERATURE: "Literature"}
POLICY = "default-src 'none'; style-src '{}'; script-src '{}'; base-uri 'none'; form-action 'none'"


@dataclass(frozen=True)
class Contents:
    """What the page shows: lists, the submissions whose rows they have, what is not ranked, and how many files.

    source: SHA-256 of the program's source.
    """

    lists: Sequence[Ranked]
    submissions: Sequence[Submission]
    apart: Sequence[Apart]
    read: int
    source: str


def require() -> None:
    """InputError, in a line, where the page cannot be made for lack of a package."""
    try:
        import jinja2  # noqa: F401
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise InputError(f"a page needs Jinja2 and matplotlib ({error}): pip install 'hpcai-bench[page]'") from None


def html(contents: Contents, jobs: int) -> str:
    """The page; its details are made by so many processes. ImportError without Jinja2 or matplotlib."""
    tasks = [*_tasks(contents)]
    made = mapped(detail, tasks, jobs)
    details = {task.name: found or ENDED for task, found in zip(tasks, made, strict=True)}
    style, script = ((HERE / name).read_text("utf-8") for name in ("page.css", "page.js"))
    lists = [listed(each, number, details) for number, each in enumerate(contents.lists)]
    return (
        _environment()
        .get_template("page.html")
        .render(
            policy=POLICY.format(_hash(style), _hash(script)),
            made=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
            version=__version__,
            source=contents.source,
            files=contents.read,
            listed=len({line.run for each in contents.lists for line in each.lines if line.run}),
            groups=_groups(lists),
            style=_own(style),
            script=_own(script),
            apart_columns=APART,
            apart=[Apart(cell(each.path), cell(each.reason, MOST_REASON)) for each in contents.apart],
        )
    )


def _tasks(contents: Contents) -> Iterator[Task]:
    """A task for each row of a run. The first ones of each list have plots, as long as the page has few."""
    found = {each.fingerprint: each for each in contents.submissions}
    plotted = 0
    for number, each in enumerate(contents.lists):
        for place, line in enumerate(each.lines):
            if submission := found.get(line.run):
                draws = place < PLOTTED_OF_LIST and plotted < PLOTTED
                plotted += draws
                yield Task(row_name(number, place), submission.path, submission.digest, line.index, draws)


def _groups(lists: Sequence[Listed]) -> list[tuple[str, list[Listed]]]:
    return [(TITLES[origin], [*group]) for origin, group in groupby(lists, lambda each: each.origin)]


def _environment() -> "Environment":
    """Everything is escaped, but for what `_own` has marked."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters["own_svg"] = _own
    return made


def _own(text: str) -> str:
    """Text that is this program's own, or an SVG element that it has made: not escaped."""
    from markupsafe import Markup

    return Markup(text)


def _hash(text: str) -> str:
    """The source of a policy that allows this text alone."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"

"""`python -P -m hpcai.ranking PATH...`: verifies results and lists them, ranked; a printed report is listed apart."""

import argparse
import io
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

from hpcai.errors import HpcaiError, InputError
from hpcai.machine import program_source
from hpcai.ranking import cache
from hpcai.ranking.acceptance import command as acceptance
from hpcai.ranking.acceptance.command import MEDIAN
from hpcai.ranking.collect import Collected, collect
from hpcai.ranking.examine import examine
from hpcai.ranking.lists import Ranked, ranked, without_repeated
from hpcai.ranking.literature import beside, literature
from hpcai.ranking.page import document
from hpcai.ranking.pool import examined
from hpcai.ranking.submission import Apart, Submission
from hpcai.ranking.table import csv_text
from hpcai.ranking.text import text_of
from hpcai.report import replacing

DESCRIPTION = """\
Verifies every result.json and prints one list for each workload, dataset, status, level, precision, and one model or
several; results that are not sound are listed apart with the reason. docs/RANKING.md describes the lists."""


class _OneLineParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(InputError.exit_code, f"{self.prog}: error: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the lists, or a comparison with a baseline; the exit code."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    if asked.rules and not asked.baseline:
        parser.error("--rules needs --baseline")
    if asked.baseline and (asked.html is not None or asked.list):
        parser.error("--html and --list are of lists; with --baseline there are none")
    if asked.html == "":
        parser.error("--html needs the name of a file")
    return _accepted(asked) if asked.baseline else _ranked(asked)


def _accepted(asked: argparse.Namespace) -> int:
    """Compare with a baseline; the exit code: 0 all PASSED, 1 not so, 2 there is no baseline."""
    kept = None if asked.no_cache else cache.opened()
    text, lines, code = acceptance.run(asked.path, asked.baseline, asked.rules, kept, asked.jobs)
    _print(text)
    _write(asked.csv, lines)
    return code


def _ranked(asked: argparse.Namespace) -> int:
    """Print the lists; the exit code: 0 something was listed, 2 nothing was."""
    if asked.html:
        document.require()
    collected = collect(asked.path)
    submissions, apart = _examined(collected, asked)
    lists = ranked(submissions)
    chosen = [each for each in (*lists, *_published(lists, asked.list)) if asked.list in each.key.name]
    _print(text_of(chosen, apart))
    _write(asked.csv, csv_text(chosen))
    _write_page(asked, document.Contents(chosen, submissions, apart, len(collected.files), program_source.digest()))
    return _code(collected, lists, chosen, asked.list)


def _examined(collected: Collected, asked: argparse.Namespace) -> tuple[list[Submission], list[Apart]]:
    """What was found for the lists, and what is in none."""
    kept = None if asked.no_cache else cache.opened()
    read = partial(examine, cache=kept, source=program_source.digest())
    outcomes = [*without_repeated(examined(collected.files, read, asked.jobs))]
    apart = [*collected.apart, *(each for each in outcomes if isinstance(each, Apart))]
    return [each for each in outcomes if isinstance(each, Submission)], apart


def _published(lists: Sequence[Ranked], asked: str) -> list[Ranked]:
    """Published rows: of the lists that there are, or all that are asked for by name."""
    return [*literature()] if "literature" in asked else beside(lists)


def _code(collected: Collected, lists: Sequence[Ranked], chosen: Sequence[Ranked], asked: str) -> int:
    if not (collected.files and collected.readable):
        print("hpcai-ranking: no result.json and no report.txt could be read", file=sys.stderr)
    elif asked and not chosen:
        print(f"hpcai-ranking: no list {asked!r}; there are {_names(lists)}", file=sys.stderr)
    elif not chosen:
        print("hpcai-ranking: nothing could be listed", file=sys.stderr)
    else:
        return 0
    return InputError.exit_code


def _names(lists: Sequence[Ranked]) -> str:
    return ", ".join(each.key.name for each in lists) or "none"


def _print(text: str) -> None:
    try:
        print(text, end="", flush=True)
    except BrokenPipeError:  # the reader has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write(path: str | None, text: str) -> None:
    if path is None:
        return
    try:
        Path(path).write_text(text, "utf-8", errors="backslashreplace")
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write {path}: {error}") from None


def _write_page(asked: argparse.Namespace, contents: document.Contents) -> None:
    """The page is replaced whole: who reads it sees the one before, or this one."""
    if asked.html:
        try:
            replacing.replace(Path(asked.html), document.html(contents, asked.jobs).encode("utf-8", "replace"))
        except ValueError as error:  # a path without a name, or with a null byte
            raise InputError(f"cannot write {asked.html}: {error}") from None


def _parser() -> argparse.ArgumentParser:
    parser = _OneLineParser(prog="hpcai-ranking", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument("path", nargs="+", metavar="PATH", help="a folder with results, a result.json or a report.txt")
    parser.add_argument("--csv", metavar="FILE", help="write all columns of the lists to this file")
    parser.add_argument("--html", metavar="PAGE", help="write the lists as a page for a browser")
    parser.add_argument("--list", default="", metavar="NAME", help="print only lists with this in their name")
    parser.add_argument("--baseline", metavar="PATH", help=f"compare with these results, or with their own {MEDIAN!r}")
    parser.add_argument("--rules", metavar="FILE", help="rules of the comparison, TOML; default: the shipped ones")
    parser.add_argument("--jobs", type=_positive, default=os.cpu_count() or 1, metavar="N", help="processes")
    parser.add_argument("--no-cache", action="store_true", help="verify again what was verified before")
    return parser


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 10_000):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)


def command() -> NoReturn:
    """Entry point: exit with the code; an illegal option is told in one line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names may have any script, whatever the terminal's encoding
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except HpcaiError as error:
        print(f"hpcai-ranking: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    command()

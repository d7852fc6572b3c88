"""Command line: `python -P -m hpcai.projection [RESULT...] [--ranks N,...] [--machine FILE]`.

Lines on stdout that all begin with PROJECTED.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from hpcai.errors import HpcaiError, InputError
from hpcai.formulas.all_reduce_cost import COSTS
from hpcai.projection import text
from hpcai.projection.errors import leave_one_out
from hpcai.projection.fit import Fit, fit
from hpcai.projection.machine import machine_of
from hpcai.projection.machines import names
from hpcai.projection.measured import Measured, families
from hpcai.projection.model import Projected, Refused
from hpcai.projection.published import case_fit, compared

DESCRIPTION = """\
FLOPS, Valid FLOPS, efficiency and time of trainings at numbers of ranks that were not measured, from verified results.
A projection is not a result. docs/PROJECTION.md derives each term. Without results: the published case of a machine."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0, or 2 if nothing can be projected."""
    asked = _parser().parse_args(arguments)
    try:
        lines = list(_published(asked) if not asked.result else _projected(asked))
    except HpcaiError as error:
        print(f"hpcai: {error}", file=sys.stderr)
        return error.exit_code
    print(text.marked(lines))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -P -m hpcai.projection", description=DESCRIPTION)
    parser.add_argument("result", nargs="*", type=Path, help="result.json, or the folder it is in")
    parser.add_argument("--ranks", type=_counts, default=(), metavar="N,...", help="numbers of ranks")
    parser.add_argument("--machine", metavar="FILE", help=f"machine file, or one of {', '.join(names())}")
    parser.add_argument("--algorithm", choices=sorted(COSTS), help="of the all-reduce; default: the measured one")
    parser.add_argument(
        "--degree", type=_count, metavar="Q", help="ranks of a model; default: as many models as measured"
    )
    return parser


def _count(word: str) -> int:
    value = int(word)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{word}; allowed: 1 and above")
    return value


def _counts(words: str) -> tuple[int, ...]:
    return tuple(map(_count, words.split(",")))


def _published(asked: argparse.Namespace) -> Iterator[str]:
    if not asked.machine:
        raise InputError("nothing to project from; allowed: results, or --machine with a published case")
    machine = machine_of(asked.machine)
    found = compared(machine, asked.ranks, asked.algorithm)
    yield from text.published_block(found, case_fit(machine, asked.algorithm), machine.title)


def _projected(asked: argparse.Namespace) -> Iterator[str]:
    if not asked.ranks:
        raise InputError("--ranks N,... is missing: the numbers of ranks to project to")
    machine = machine_of(asked.machine) if asked.machine else None
    for measured in families(asked.result):
        used = fit(measured, asked.algorithm)
        used = used.on(machine) if machine else used
        found = [_outcome(used, measured, ranks, asked.degree) for ranks in asked.ranks]
        if all(isinstance(each, Refused) for each in found):
            raise InputError(str(found[0]))
        yield from text.block(measured, used, leave_one_out(measured), found, machine)


def _outcome(used: Fit, measured: Measured, ranks: int, degree: int | None) -> Projected | Refused:
    try:
        return used.project(*_grid(measured, ranks, degree))
    except InputError as error:
        return Refused(ranks, str(error))


def _grid(measured: Measured, ranks: int, degree: int | None) -> tuple[int, int]:
    """P and Q: with Q given P = ranks / Q; else P as measured on the largest Q, or Q = 1 if no other was measured."""
    widest = max(measured.observations, key=lambda each: (each.q, each.ranks))
    models, q = (ranks // degree, degree) if degree else (widest.p, ranks // widest.p)
    if not degree and widest.q == 1:
        models, q = ranks, 1
    if models * q != ranks:
        other = f"--degree {degree}" if degree else f"P = {models}"
        raise InputError(f"no multiple of {other}; allowed: multiples of it")
    return models, q


if __name__ == "__main__":
    sys.exit(main())

"""Command line: `python -P -m hpcai.study NAME [RESULT...] [--out FOLDER]`.

A table on stdout, and the files NAME.csv, NAME.png and NAME.svg.
"""

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path

from hpcai.errors import HpcaiError, InputError
from hpcai.study import drawing
from hpcai.study.figure import Cell, Drawing
from hpcai.study.figures import figure, names
from hpcai.study.reading import read


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0, or 2 if a result cannot be used."""
    parser = argparse.ArgumentParser(prog="python -P -m hpcai.study", description="Figures of the papers from results.")
    parser.add_argument("name", choices=names(), metavar="NAME", help=f"one of {', '.join(names())}")
    explained = "result.json, or the folder it is in; none for tables of operation counts"
    parser.add_argument("result", nargs="*", type=Path, help=explained)
    parser.add_argument("--out", type=Path, default=Path(), help="folder of the files; default: the current one")
    options = parser.parse_args(arguments)
    try:
        _make(options.name, options.result, options.out)
    except HpcaiError as error:
        print(f"hpcai: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _make(name: str, paths: Sequence[Path], out: Path) -> None:
    chosen = figure(name)
    made = chosen.of_files(paths, read)
    print(f"{chosen.title} ({chosen.paper})\n")
    print("\n".join(lines(made)))
    try:
        out.mkdir(parents=True, exist_ok=True)
        _write(out / f"{name}.csv", made)
        written = [out / f"{name}.csv", *drawing.save(out, name, chosen, made)]
    except ImportError as error:
        raise InputError(f"figures need matplotlib ({error}): pip install matplotlib") from None
    except OSError as error:
        raise InputError(f"cannot write to {out.absolute()}: {error.strerror}") from None
    print("\n" + "\n".join(map(str, written)))


def lines(made: Drawing) -> list[str]:
    """The table as text, columns aligned to the right."""
    table = [made.columns, *(tuple(map(_word, row)) for row in made.rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(word.rjust(width) for word, width in zip(row, widths, strict=True)) for row in table]


def _word(cell: Cell) -> str:
    if cell is None:
        return "n/a"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def _write(path: Path, made: Drawing) -> None:
    rows = [["" if cell is None else cell for cell in row] for row in made.rows]
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([made.columns, *rows])


if __name__ == "__main__":
    sys.exit(main())

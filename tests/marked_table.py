"""A page with a table that a program of this folder makes, from `<!-- table tests/PROGRAM -->` to `<!-- end -->`."""

import sys
from pathlib import Path

from hpcai.record.reference import MARKED


def renewed(page: str, program: str, table: str) -> str:
    """The page with the program's table of now; other tables stay."""
    return MARKED.sub(lambda mark: f"{mark[1]}{mark[2]}\n{table}\n" if mark[1] == program else mark[0], page)


def renew(program: str, table: str) -> None:
    """Renew the table in the page that the command line names."""
    path = Path(sys.argv[1])
    path.write_text(renewed(path.read_text("utf-8"), program, table), "utf-8")

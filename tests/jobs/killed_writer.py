"""Writes a result twice, and is killed at its n-th call on a file: killed_writer.py FOLDER FIRST.json SECOND.json.

A child process for each n, and a folder FOLDER/n; the last one is not killed. FIRST.json may be absent: "-".
"""

import os
import signal
import sys
from itertools import count
from pathlib import Path

from hpcai.record.loading import load
from hpcai.record.result import Result
from hpcai.report import files

CALLS = ("open", "os.rename", "os.remove")


def kill_at(number: int, folder: Path) -> None:
    """From now on the process is killed before its n-th call on a file of the folder, from 1."""
    calls = count(1)

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event in CALLS and str(arguments[0]).startswith(str(folder)) and next(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def write(folder: Path, number: int, results: list[Result]) -> None:
    folder.mkdir()
    *before, last = results
    for result in before:
        files.write(folder, result)
    kill_at(number, folder)
    files.write(folder, last)
    os._exit(0)


def was_killed(folder: Path, number: int, results: list[Result]) -> bool:
    child = os.fork()
    if child == 0:
        write(folder / str(number), number, results)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    read = [load(Path(path)) for path in sys.argv[2:] if path != "-"]
    print(next(n for n in count(1) if not was_killed(Path(sys.argv[1]), n, read)))

"""The file that a watcher leaves in the results folder of a job that has not ended in good order."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from hpcai import clock
from hpcai.watch.rank import Sight


def write(job: Mapping[str, Any], what: str, sight: Sight | None) -> None:
    """Write the file, whole, if its folder can be written: when the job ended, why, in which test, how to go on.

    job: path of the file, empty before there is a folder; and the command to go on.
    """
    if not job["file"]:
        return
    now, path = sight.activity if sight else None, Path(job["file"])
    test = f"test: {now.test} ({now.workload}) was not finished\n" if now and now.test else ""
    text = f"when: {clock.utc().isoformat()}\nwhat: {what}\n{test}resume: {job['resume']}\n"
    temporary = path.with_name(f".{path.name}")
    with suppress(OSError):
        temporary.write_text(text, "utf-8")
        temporary.replace(path)

"""The file that a watcher leaves in the results folder of a job that has not ended in good order."""

from contextlib import suppress
from pathlib import Path

from hpcai import clock
from hpcai.watch.rank import Sight


def write(path: str, what: str, sight: Sight | None, resume: str) -> None:
    """Write the file, whole, if its folder can be written: when the job ended, why, in which test, how to go on."""
    now = sight.activity if sight else None
    test = f"test: {now.test} ({now.workload}) was not finished\n" if now and now.test else ""
    text = f"when: {clock.utc().isoformat()}\nwhat: {what}\n{test}resume: {resume}\n"
    temporary = Path(path).with_name(f".{Path(path).name}")
    with suppress(OSError):
        temporary.write_text(text, "utf-8")
        temporary.replace(path)

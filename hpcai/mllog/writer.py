"""Writes an MLPerf log by the package's own writer, with the times of the events."""

import io
import json
import logging
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from mlperf_logging.mllog.mllog import MLLogger

import hpcai
from hpcai.comm.clock_sync import CommonClock
from hpcai.mllog import FOLDER, SYSTEM
from hpcai.mllog.events import Event

HOME = Path(hpcai.__file__).parent.parent  # in a log the files of the program have no place of their machine


def text(events: Iterable[Event], clock: CommonClock) -> str:
    """The lines of a log, one for each event."""
    written = io.StringIO()
    logger = logging.Logger("hpcai.mllog")  # of its own: the package's default prints to stdout
    logger.addHandler(logging.StreamHandler(written))
    log = MLLogger(logger, root_dir=re.escape(str(HOME)))
    methods = {"event": log.event, "start": log.start, "end": log.end}
    for event in events:
        milliseconds = int(clock.instant(event.at).timestamp() * 1000)
        methods[event.kind](event.key, event.value, dict(event.metadata), time_ms=milliseconds)
    return written.getvalue()


def system_description(folder: Path) -> Mapping[str, str]:
    """The system description in a result folder; OSError where the folder is not visible."""
    found: Mapping[str, str] = json.loads((folder / FOLDER / SYSTEM).read_text("utf-8"))
    return found


def write(path: Path, content: str) -> None:
    """Write a file atomically, and its folder if there is none; OSError if it cannot be written."""
    temporary = path.with_name(f".{path.name}")
    try:
        path.parent.mkdir(exist_ok=True)
        temporary.write_text(content, "utf-8")
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise

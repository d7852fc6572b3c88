"""The files of a run: report.txt, result.json, tables and series in a folder of their own, each replaced atomically."""

import csv
import io
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from hpcai.errors import HpcaiError
from hpcai.report import hpl, series, trials
from hpcai.report.tables import blocks, comma_separated
from hpcai.result.summary import SEARCHED

Json = dict[str, Any]

SERIES = "series.h5"
CSV_COLUMNS = ("index", "tv", "workload", "n", "nb", "p", "q", "seconds", "gflops", "verdict", "status")
CSV_SETTINGS = ("DATASET", "NETWORK", "VARIANT", "EPOCHS", "PRECISION", "SEED")
CSV_SCORES = ("flops", "valid_flops", "quality", "target", "time_to_quality", "efficiency")


def create_folder(output: str, date: datetime) -> Path:
    """A new folder results/<output>-<UTC time>/ below the current directory; HpcaiError if it cannot be made."""
    name = f"{output}-{date:%Y%m%dT%H%M%SZ}"
    for attempt in range(1, 1000):
        folder = Path("results") / (name if attempt == 1 else f"{name}-{attempt}")
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError as error:
            if not Path("results").is_dir():
                raise HpcaiError(f"cannot make the result folder {folder}: {error.strerror}") from None
        except OSError as error:
            raise HpcaiError(f"cannot make the result folder {folder.absolute()}: {error.strerror}") from None
    raise HpcaiError(f"cannot make the result folder {name}: too many of that name")


def report(result: Json) -> str:
    """The whole printed report of a result."""
    return hpl.banner(result) + blocks(result) + hpl.closing(result)


def table(result: Json) -> str:
    """A line per test, comma-separated; a score that was not reached, or that its kind has not, is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    searched = any(test["workload"] == "nas" for test in result["tests"])
    scores = (*CSV_SCORES, *(SEARCHED if searched else ()))
    writer.writerow([*CSV_COLUMNS, *map(str.lower, CSV_SETTINGS), *scores])
    for test in result["tests"]:
        writer.writerow(_cells(test, scores))
    return text.getvalue()


def _cells(test: Json, scores: Sequence[str]) -> Sequence[Any]:
    settings = [test["settings"][key] for key in CSV_SETTINGS]
    return [*(test[name] for name in CSV_COLUMNS), *settings, *(test["scores"].get(name) for name in scores)]


def texts(result: Json) -> dict[str, str]:
    """The contents by name of the files beside result.json; a table without rows has none."""
    rows = {f"{member}.csv": result[member] for member in ("kernels", "collectives")}
    rows["trials.csv"] = trials.cells(result["tests"])
    tables = {name: comma_separated(found) for name, found in rows.items() if found}
    return {"report.txt": report(result), "result.csv": table(result), **tables}


def contents(result: Json) -> dict[str, bytes]:
    """The contents by name of all files, result.json last; one that has nothing to say is left out."""
    found = {name: text.encode() for name, text in texts(result).items()} | {SERIES: series.contents(result)}
    made = json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    return {name: data for name, data in found.items() if data} | {"result.json": made.encode()}


def write(folder: Path, result: Json) -> None:
    """Write or replace the files."""
    for name, data in contents(result).items():
        _replace(folder / name, data)


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise HpcaiError(f"cannot write {path.absolute()}: {error.strerror}") from None

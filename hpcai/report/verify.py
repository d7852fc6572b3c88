"""Makes a stored result again from its input and raw measurements, and names everything that comes out different."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hpcai import result as results
from hpcai.errors import HpcaiError, InputError
from hpcai.inputfile import from_dict
from hpcai.report import files

Json = dict[str, Any]


def differences(path: Path) -> list[str]:
    """What in a result file, and in the report and table beside it, does not follow from the raw measurements.

    Raises InputError if the file is not a result at all.
    """
    stored = read(path)
    try:
        made = rebuilt(stored)
        found = list(compare(stored, made, "")) + list(_beside(path.parent, made))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ZeroDivisionError, OverflowError) as error:
        return [f"the result cannot be made again: {type(error).__name__}: {error}"]
    except HpcaiError as error:
        return [f"the result cannot be made again: {error}"]
    return found


def read(path: Path) -> Json:
    """The JSON object in a result file."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}") from None
    if not isinstance(stored, dict) or stored.get("schema") != results.SCHEMA:
        raise InputError(f"{path} is not a result of schema {results.SCHEMA}")
    return stored


def rebuilt(stored: Json) -> Json:
    """The result as it must be, given the stored input, environment and raw measurements."""
    problem = from_dict(stored["input"])
    environment = stored["environment"]
    cases = problem.cases(environment["ranks"], environment["accelerators"])
    tests: list[Json] = []
    for case, test in zip(cases, stored["tests"], strict=False):
        tests.append(results.judge(case, test["raw"], tests))
    parts = ("schema", "version", "date", "environment", "ranks", "kernels", "collectives")
    made = {**{part: stored[part] for part in parts}, "input": problem.as_dict(), "tests": tests}
    return results.sealed(json.loads(json.dumps(made)), len(cases))


def compare(stored: Any, made: Any, place: str) -> Iterator[str]:
    """Each place where two JSON values differ, and how."""
    if isinstance(stored, dict) and isinstance(made, dict):
        for key in sorted({*stored, *made}):
            yield from compare(stored.get(key, "nothing"), made.get(key, "nothing"), f"{place}.{key}".lstrip("."))
    elif isinstance(stored, list) and isinstance(made, list) and len(stored) == len(made):
        for index, (one, other) in enumerate(zip(stored, made, strict=True)):
            yield from compare(one, other, f"{place}[{index}]")
    elif type(stored) is not type(made) or stored != made:
        yield f"{place}: {_short(stored)} is stored, {_short(made)} follows from the raw measurements"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 100 else text[:97] + "..."


def _beside(folder: Path, made: Json) -> Iterator[str]:
    """Differences of the report and the table, where they lie beside the result."""
    for name, expected in (("report.txt", files.report(made)), ("result.csv", files.table(made))):
        path = folder / name
        if path.exists() and (found := path.read_text(encoding="utf-8", errors="replace")) != expected:
            yield f"{name}, line {_first_difference(found, expected)}: not what the result file says"


def _first_difference(one: str, other: str) -> int:
    pairs = zip(one.splitlines(), other.splitlines(), strict=False)
    same = next((index for index, (a, b) in enumerate(pairs) if a != b), None)
    return 1 + (min(len(one.splitlines()), len(other.splitlines())) if same is None else same)

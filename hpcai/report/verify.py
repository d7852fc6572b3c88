"""Makes a stored result again from its input and raw measurements, and names everything that comes out different.

Raw measurements have to agree with each other as well (hpcai.report.consistency).
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hpcai import result as results
from hpcai.errors import HpcaiError, InputError
from hpcai.inputfile import Case, from_dict
from hpcai.report import consistency, detections, files, schema, series
from hpcai.report.schema import check

Json = dict[str, Any]

NOTHING = "nothing"
TEXTS = ("report.txt", "result.csv", "kernels.csv", "collectives.csv", "trials.csv")
# What a hostile file can make of arithmetic, look-ups and formats.
UNFIT = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, MemoryError, OSError)


def differences(path: Path) -> list[str]:
    """What in a result file, and in the report and table beside it, does not follow from the raw measurements.

    Raises InputError if the file is not a result at all.
    """
    stored = read(path)
    if found := list(check.violations(stored, schema.schema())):
        return found
    try:
        made = rebuilt(stored)
        return [*compare(stored, made, ""), *_contradictions(made), *_beside(path.parent, made)]
    except UNFIT as error:
        return [f"the result cannot be made again: {type(error).__name__}: {error}"]
    except HpcaiError as error:
        return [f"the result cannot be made again: {error}"]


def standing(path: Path) -> str:
    """What the verification of a sound result says: what was compared, and what the result is worth."""
    result = read(path)
    summary = result["summary"]
    found = [detections.beside(test["index"]) for test in result["tests"] if test["workload"] == "weather"]
    beside = [name for name in (*TEXTS, files.SERIES, *found) if (path.parent / name).exists()]
    compared = f"with {' and '.join(beside)}" if beside else "nothing beside it to compare"
    if missing := [name for name in found if name not in beside]:
        compared += f"; precision not judged again without {' and '.join(missing)}"
    tests = f"{summary['passed']} of {summary['planned']} tests PASSED"
    return f"every number follows from the raw measurements, {compared}; {summary['valid']}, {tests}"


def read(path: Path) -> Json:
    """The JSON object in a result file."""
    try:
        stored = json.loads(path.read_text("utf-8"), object_pairs_hook=_object, parse_constant=_refused)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}") from None
    if not isinstance(stored, dict) or stored.get("schema") != results.SCHEMA:
        raise InputError(f"{path} is not a result of schema {results.SCHEMA}")
    return stored


def _object(pairs: list[tuple[str, Any]]) -> Json:
    """An object whose keys are all different: of two that are alike, readers may take one or the other."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a key twice")
    return found


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def rebuilt(stored: Json) -> Json:
    """The result as it must be, given the stored input, environment and raw measurements."""
    problem = from_dict(stored["input"])
    cases = _cases(stored)
    parts = ("schema", "version", "date", "environment", "ranks")
    made = {**{part: stored[part] for part in parts}, "input": problem.as_dict()}
    made |= {member: [] for member in results.EMPTY}
    for case, entry in zip(cases, _entries(stored, cases), strict=False):
        results.enter(made, case, entry["raw"])
    made["broken_off"] = _broken_off(stored["broken_off"], cases)
    return results.sealed(json.loads(json.dumps(made)), len(cases))


def _entries(stored: Json, cases: list[Case]) -> Iterator[Json]:
    """The tests and tables that are stored, as their cases come; what no case asks for is left over and found out."""
    tests, tables = iter(stored["tests"]), iter(stored["tables"])
    for case in cases:
        entry = next(tables if case.workload in results.TABLES else tests, None)
        if entry is None:
            return
        yield entry


def _broken_off(stored: Json | None, cases: list[Case]) -> Json | None:
    return stored and results.broken_off(cases[stored["index"] - 1], stored["cause"], stored["raw"])


def _cases(result: Json) -> list[Case]:
    environment = result["environment"]
    return from_dict(result["input"]).cases(environment["ranks"], environment["accelerators"])


def _contradictions(made: Json) -> Iterator[str]:
    """Claims that raw measurements break; those of a FAILED test may be anything."""
    cases = _cases(made)
    if broken := list(consistency.machine(made, cases)):
        yield from broken
        return
    yield from consistency.broken_off(made, cases)
    for name in ("tests", "tables"):
        for index, entry in enumerate(made[name]):
            if entry["verdict"] == "PASSED":
                for claim in _broken_claims(cases[entry["index"] - 1], entry["raw"], made["environment"]):
                    yield f"{name}[{index}].raw does not fulfil: {claim}"


def _broken_claims(case: Case, raw: Json, environment: Json) -> Iterator[str]:
    if case.workload in results.TABLES:
        return consistency.contradictions_of_table(case, raw, environment)
    return consistency.contradictions(case, raw)


def compare(stored: Any, made: Any, place: str) -> Iterator[str]:
    """Each place where two JSON values differ, and how."""
    if isinstance(stored, dict) and isinstance(made, dict):
        for key in sorted({*stored, *made}):
            yield from compare(stored.get(key, NOTHING), made.get(key, NOTHING), f"{place}.{key}".lstrip("."))
    elif isinstance(stored, list) and isinstance(made, list) and len(stored) == len(made):
        for index, (one, other) in enumerate(zip(stored, made, strict=True)):
            yield from compare(one, other, f"{place}[{index}]")
    elif type(stored) is not type(made) or stored != made:
        yield f"{place}: {_short(stored)} is stored, {_short(made)} follows from the raw measurements"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 100 else text[:97] + "..."


def _beside(folder: Path, made: Json) -> Iterator[str]:
    """Differences of the report, the tables and the series, where they lie beside the result."""
    texts = files.texts(made)
    for name in TEXTS:
        path, expected = folder / name, texts.get(name, "")
        if path.exists() and not path.is_file():
            yield f"{name} is no file"
        elif path.exists() and (found := path.read_bytes()) != expected.encode():
            line = _first_difference(found.decode("utf-8", "replace"), expected)
            yield f"{name}, line {line}: not what the result file says"
    if (folder / files.SERIES).exists():
        yield from series.differences(folder / files.SERIES, made)
    cases = _cases(made)
    for test in made["tests"]:
        if test["workload"] == "weather":
            yield from detections.differences(folder, cases[test["index"] - 1], test)


def _first_difference(one: str, other: str) -> int:
    pairs = zip(one.splitlines(), other.splitlines(), strict=False)
    same = next((index for index, (a, b) in enumerate(pairs) if a != b), None)
    return 1 + (min(len(one.splitlines()), len(other.splitlines())) if same is None else same)

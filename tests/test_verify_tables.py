"""Verification of tables: sound ones pass, tables with any altered number, word or flag do not."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from alterations import Where, leaves, other_values, put, verified
from jsonschema import Draft202012Validator
from result_with_tables import result_with_tables, tables_alone, with_tables
from small_run import GOLDEN, rebuilt, renewed
from written_files import write_unlisted

from hpcai.errors import HpcaiError
from hpcai.record.loading import load
from hpcai.record.schema import schema
from hpcai.report import files
from hpcai.results.assembly import violated_claims
from hpcai.verification import verify

Json = dict[str, Any]

# Numbers that can be altered to some extent if all derived values are computed again: no other depends on them.
UNPROVEN = {
    "tables.raw.rows.seconds", "tables.raw.rows.residual", "tables.raw.rows.iterations", "tables.raw.rows.variant",
    "tables.raw.rows.checked", "tables.raw.missing.why", "tables.memory.peak_bytes",
    "tables.memory.baseline_bytes", "tables.memory.planned_bytes", "tables.memory.whole_run",
}  # fmt: skip


def name_of(path: Where) -> str:
    return ".".join(key for key in path if isinstance(key, str))


def representatives(result: Json) -> Iterator[tuple[Where, Any]]:
    """The contents of the tables and their rows, of all rows of one kernel or backend the first."""
    seen = set()
    for member in ("tables", "kernels", "collectives"):
        for path, value in leaves(result[member], (member,)):
            row: Any = result
            for key in path[:-1]:
                row = row[key]
            kind = [row.get(key) for key in ("kernel", "by")] if isinstance(row, dict) else []
            if (key := (name_of(path), path[1] if member == "tables" else "", *kind)) not in seen:
                seen.add(key)
                yield path, value


def measured(path: Where) -> bool:
    """Whether a value is a raw measurement, from which others follow."""
    return path[0] == "tables" and path[2] in ("raw", "memory")


def passes(path: Where, value: Any, folder: Path) -> bool:
    """Whether a result, one value altered and all derived values computed again, is PASSED and verified."""
    try:
        result = rebuilt(put(tables_alone(), path, value))
    except (HpcaiError, ArithmeticError, ValueError, TypeError, LookupError):
        return False
    return result["summary"]["failed"] == 0 and not verified(result, folder)


def test_sound_tables_with_their_files_are_verified(tmp_path: Path) -> None:
    write_unlisted(tmp_path, result_with_tables())
    assert {path.name for path in tmp_path.iterdir()} == {"result.json", "series.h5", *files.names()} - {"trials.csv"}
    assert verify.differences(tmp_path / "result.json") == []
    assert "with report.txt and result.csv and kernels.csv" in verify.sound_message(tmp_path / "result.json")
    Draft202012Validator(schema()).validate(with_tables())


@pytest.mark.slow
def test_every_alteration_with_a_new_digest_is_detected(tmp_path: Path) -> None:
    """Alterations of measurements are in the next test, which also computes derived values again."""
    derived = [(path, value) for path, value in representatives(tables_alone()) if not measured(path)]
    for path, value in [*derived, *leaves(tables_alone()["summary"], ("summary",))]:
        for other in other_values(value)[:1]:
            assert verified(renewed(put(tables_alone(), path, other)), tmp_path), f"{path}: {value} -> {other}"


def test_measurements_cannot_be_altered_alone(tmp_path: Path) -> None:
    """Even if rows, ceilings, summary, fingerprint and digest are computed again."""
    assert verified(rebuilt(tables_alone()), tmp_path) == []
    for path, value in representatives(tables_alone()):
        if measured(path) and name_of(path) not in UNPROVEN:
            for other in (other for other in other_values(value) if other != value):
                assert not passes(path, other, tmp_path), f"{path}: {value} -> {other}"


@pytest.mark.parametrize("number", [0, 1])
def test_seconds_and_memory_are_positive(number: int, tmp_path: Path) -> None:
    table = ("tables", number)
    for path in (("raw", "rows", 0, "seconds"), ("memory", "baseline_bytes"), ("memory", "peak_bytes")):
        assert not passes((*table, *path), 0, tmp_path) and not passes((*table, *path), -1, tmp_path)
    assert not passes((*table, "memory", "planned_bytes"), 1, tmp_path)


def _without(result: Json, member: str) -> None:
    del result[member][0]


@pytest.mark.parametrize(
    "change",
    [
        lambda result: _without(result, "tables"),
        lambda result: _without(result, "kernels"),
        lambda result: result["collectives"].reverse(),
        lambda result: result["tables"].reverse(),
        lambda result: result["tables"].append(result["tables"][1]),
        lambda result: result["kernels"].append(result["kernels"][0]),
        lambda result: result["tables"][0].update(verdict="FAILED"),
        lambda result: result["tables"][0].update(ceilings={**result["tables"][0]["ceilings"], "gemm": None}),
        lambda result: result["tables"][1].update(fits=[]),
    ],
)
def test_added_missing_or_exchanged_tables_and_rows_are_detected(
    change: Callable[[Json], None], tmp_path: Path
) -> None:
    result = with_tables()
    change(result)
    assert verified(renewed(result), tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        lambda raws: raws[0]["rows"].pop(),
        lambda raws: raws[0]["rows"].append(raws[0]["rows"][-1]),
        lambda raws: raws[0]["missing"].clear(),
        lambda raws: raws[1]["rows"].pop(),
        lambda raws: raws[1]["rows"].append(raws[1]["rows"][-1]),
        lambda raws: raws[1]["skipped"].pop(),
    ],
)
def test_added_or_missing_measured_rows_fail_the_table(change: Callable[[list[Json]], None], tmp_path: Path) -> None:
    """By the program itself; a result with PASSED in spite of that is detected."""
    result = with_tables()
    change([table["raw"] for table in result["tables"]])
    made = rebuilt(result)
    assert made["summary"]["failed"] == 1 and verified(made, tmp_path) == []
    for table in made["tables"]:
        table["verdict"] = "PASSED"
    assert verified(renewed(made), tmp_path)


def test_a_contradiction_is_named(tmp_path: Path) -> None:
    result = with_tables()
    result["tables"][0]["raw"]["ranks"] = 3
    claim = "tables[0].raw does not fulfil: ranks: those of the environment"
    assert claim in verified(renewed(result), tmp_path)
    assert rebuilt(result)["tables"][0]["verdict"] == "FAILED"
    made = result_with_tables()
    for case, table in zip(verify.cases_of(made), made.tables, strict=False):
        assert violated_claims(case, table, made.environment) == []


@pytest.mark.parametrize("name", ["kernels.csv", "collectives.csv", "report.txt"])
def test_an_edited_file_of_the_run_is_detected(name: str, tmp_path: Path) -> None:
    write_unlisted(tmp_path, result_with_tables())
    path = tmp_path / name
    path.write_text(path.read_text("utf-8").replace("fp32", "fp64", 1).replace("world", "group", 1), "utf-8")
    (found,) = verify.differences(tmp_path / "result.json")
    assert found.startswith(f"{name}, line ")


def test_a_file_of_rows_that_the_result_lacks_is_detected(tmp_path: Path) -> None:
    write_unlisted(tmp_path, result_with_tables())
    write_unlisted(tmp_path, verify.rebuilt(load(GOLDEN / "result.json")))
    assert verify.differences(tmp_path / "result.json") == [
        f"{name}, line 1: not what the result file says" for name in ("kernels.csv", "collectives.csv")
    ]

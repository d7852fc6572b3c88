"""Verification: sound results pass, results with any altered number do not."""

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from alterations import holder, leaves, other_values, put, verified
from sampled_parameters import IN_PARTS, of_part
from small_run import GOLDEN, REAL_RUNS, Run, golden, rebuilt, renewed
from written_files import write_unlisted

from hpcai.record.loading import load, result_of
from hpcai.verification import verify
from hpcai.verification.completeness import missing


def test_the_stored_result_with_its_report_and_table_is_verified() -> None:
    assert verify.differences(GOLDEN / "result.json") == []


@REAL_RUNS
def test_real_results_with_their_reports_and_tables_are_verified(run: Callable[[], Run]) -> None:
    assert verify.differences(run().folder / "result.json") == []


@pytest.mark.parametrize("ended", [0, 1])
def test_a_broken_off_result_is_verified(tmp_path: Path, ended: int) -> None:
    partial = golden()
    del partial["tests"][ended:]
    assert verified(rebuilt(partial), tmp_path) == []


def test_the_layout_of_the_file_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(json.dumps(golden(), sort_keys=True, indent=7), "utf-8")
    assert verify.differences(tmp_path / "result.json") == []


@pytest.mark.slow
@IN_PARTS
def test_every_alteration_with_a_new_digest_is_detected(tmp_path: Path, part: int) -> None:
    for path, value in of_part(leaves(golden()), part):
        for other in other_values(value):
            result = golden()
            put(result, path, other)
            result = renewed(result) if path != ("digest",) else result
            assert verified(result, tmp_path), f"{path}: {value} -> {other}"


@pytest.mark.slow
@IN_PARTS
def test_exchanged_neighbours_are_detected(tmp_path: Path, part: int) -> None:
    result = golden()
    numbers = [(path, value) for path, value in leaves(result) if type(value) in (int, float)]
    for (one, first), (other, second) in of_part(pairwise(numbers), part):
        if (first, type(first)) != (second, type(second)):
            altered = golden()
            put(altered, one, second)
            put(altered, other, first)
            assert verified(renewed(altered), tmp_path), f"{one} <-> {other}"


@pytest.mark.parametrize("kind", [float, str])
def test_a_number_of_another_type_is_detected(tmp_path: Path, kind: Callable[[int], Any]) -> None:
    for path, value in leaves(golden()):
        if type(value) is int:
            result = golden()
            put(result, path, kind(value))
            assert verified(renewed(result), tmp_path), path


@IN_PARTS
def test_added_or_missing_fields_are_detected(tmp_path: Path, part: int) -> None:
    for path, _ in of_part(leaves(golden()), part):
        if isinstance(path[-1], str):
            result = golden()
            put(result, (*path[:-1], "unheard of"), "nothing")
            assert verified(renewed(result), tmp_path), path
        result = golden()
        del holder(result, path)[path[-1]]
        assert verified(result if path == ("digest",) else renewed(result), tmp_path), path


def test_added_missing_or_exchanged_tests_are_detected(tmp_path: Path) -> None:
    for change in (
        lambda tests: tests.pop(),
        lambda tests: tests.pop(0),
        lambda tests: tests.append(tests[0]),
        lambda tests: tests.append(tests[1]),
        lambda tests: tests.reverse(),
        lambda tests: tests.clear(),
    ):
        result = golden()
        change(result["tests"])
        assert verified(renewed(result), tmp_path)


@pytest.mark.parametrize(
    "path",
    [
        ("wall",),
        *(("raw", name) for name in ("delivered", "accounting", "energy")),
        *(("raw", "preparation", name) for name in ("network_check", "processor")),
    ],
    ids=".".join,
)
def test_a_new_result_must_have_what_older_ones_lack(path: tuple[str, ...]) -> None:
    result = golden()
    assert [*missing(result_of(result))] == []
    put(result, ("tests", 1, *path), None)
    assert [*missing(result_of(result))] == [f"tests[1].{'.'.join(path)} is missing"]


def test_differences_are_named(tmp_path: Path) -> None:
    result = golden()
    result["tests"][1]["gflops"] += 1.0
    found = verified(renewed(result), tmp_path)
    stored, made = result["tests"][1]["gflops"], golden()["tests"][1]["gflops"]
    assert f"tests[1].gflops: {stored} is stored, {made} follows from the raw measurements" in found
    assert [difference.partition(":")[0] for difference in found] == ["digest", "tests[1].gflops"]


@pytest.mark.slow
def test_a_negative_zero_is_detected(tmp_path: Path) -> None:
    zeros = [path for path, value in leaves(golden()) if value == 0 and isinstance(value, float)]
    assert zeros
    for path in zeros:
        result = golden()
        put(result, path, -0.0)
        assert verified(renewed(result), tmp_path), path


@pytest.mark.parametrize(("old", "new"), [("0.05           TARGET", "0.06           TARGET"), ("two grids", "2 grids")])
def test_another_input_is_detected(tmp_path: Path, old: str, new: str) -> None:
    result = golden()
    assert old in result["input"]["text"]
    result["input"]["text"] = result["input"]["text"].replace(old, new)
    assert verified(renewed(result), tmp_path)


def test_another_option_is_detected(tmp_path: Path) -> None:
    result = golden()
    result["input"]["overrides"] = ["PENALTY=4"]
    assert "tests[0].settings.PENALTY: 5.0 is stored, 4.0 follows from the raw measurements" in verified(
        renewed(result), tmp_path
    )


@IN_PARTS
@pytest.mark.parametrize("name", ["report.txt", "result.csv"])
def test_an_edited_file_of_the_run_is_detected(tmp_path: Path, name: str, part: int) -> None:
    write_unlisted(tmp_path, load(GOLDEN / "result.json"))
    whole = (tmp_path / name).read_bytes()
    lines = whole.splitlines(keepends=True)
    edits = [whole + b"\n", whole[:-1], whole.replace(b"\n", b"\r\n"), b"", b"\xff" + whole, *_edited(lines)]
    for edit in of_part(edits, part):
        (tmp_path / name).write_bytes(edit)
        (found,) = verify.differences(tmp_path / "result.json")
        assert found.startswith(f"{name}, line ")
    (tmp_path / name).unlink()
    assert verify.differences(tmp_path / "result.json") == []


def _edited(lines: list[bytes]) -> Iterator[bytes]:
    for index in range(len(lines)):
        yield b"".join([*lines[:index], lines[index].replace(b"\n", b" \n"), *lines[index + 1 :]])
        yield b"".join([*lines[:index], *lines[index + 1 :]])


def test_the_line_that_differs_is_named(tmp_path: Path) -> None:
    write_unlisted(tmp_path, load(GOLDEN / "result.json"))
    report = (tmp_path / "report.txt").read_text("utf-8")
    row = next(line for line in report.splitlines() if line.startswith("WR10"))
    (tmp_path / "report.txt").write_text(report.replace(row, row.replace("WR10", "WR11")), "utf-8")
    number = 1 + report.splitlines().index(row)
    found = verify.differences(tmp_path / "result.json")
    assert found == [f"report.txt, line {number}: not what the result file says"]


def test_a_folder_in_the_place_of_the_report_is_detected(tmp_path: Path) -> None:
    write_unlisted(tmp_path, load(GOLDEN / "result.json"))
    (tmp_path / "report.txt").unlink()
    (tmp_path / "report.txt").mkdir()
    (found,) = verify.differences(tmp_path / "result.json")
    assert found == "report.txt is no file"

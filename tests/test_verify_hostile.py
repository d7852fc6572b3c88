"""Verification of files that are no results: refused or reported as wrong in one line, never a crash."""

import json
from pathlib import Path

import pytest
from alterations import found_in, leaves, places, put, verified
from sampled_parameters import IN_PARTS, of_part
from small_run import GOLDEN, golden, renewed

from hpcai.errors import InputError
from hpcai.verification import verify

NO_RESULT = {
    "empty": b"",
    "cut": (GOLDEN / "result.json").read_bytes()[:-100],
    "binary": b"\x7fELF\x00\xff\xfe",
    "other encoding": b'{"schema": "\xe9"}',
    "list": b"[1, 2]",
    "number": b"1",
    "null": b"null",
    "other schema": b'{"schema": "hpcai-result/0"}',
    "NaN": b'{"schema": "hpcai-result/3", "tests": NaN}',
    "Infinity": b'{"schema": "hpcai-result/3", "tests": -Infinity}',
    "key twice": b'{"schema": "hpcai-result/3", "tests": [{"n": 1, "n": 1}]}',
    "deep": b"[" * 200_000 + b"]" * 200_000,
    "long number": b'{"schema": "hpcai-result/3", "x": ' + b"9" * 10_000 + b"}",
    "report": (GOLDEN / "report.txt").read_bytes(),
}


@pytest.mark.parametrize("content", NO_RESULT.values(), ids=NO_RESULT)
def test_a_file_that_is_no_result_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as refused:
        verify.differences(path)
    assert str(path) in str(refused.value) and len(str(refused.value).splitlines()) == 1


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        verify.differences(tmp_path / "result.json")


NONSENSE = (None, [], {}, "x", "1", -1, 0, 10**400, 1e308, True, [[]], "\ud800", [0] * 3)


@pytest.mark.slow
@IN_PARTS
def test_nonsense_in_any_place_is_detected(tmp_path: Path, part: int) -> None:
    """Every object, list and number replaced by an impossible value: reported, never a crash."""
    for index, path in of_part(enumerate(places(golden())), part):
        result = golden()
        put(result, path, NONSENSE[index % len(NONSENSE)])
        (tmp_path / "result.json").write_text(json.dumps(result), "utf-8")
        assert result == golden() or found_in(tmp_path / "result.json"), path


@pytest.mark.slow
@IN_PARTS
def test_a_number_too_large_for_a_double_is_detected(tmp_path: Path, part: int) -> None:
    for path, value in of_part(leaves(golden()), part):
        if isinstance(value, float):
            result = golden()
            put(result, path, "beyond")
            (tmp_path / "result.json").write_text(json.dumps(result).replace('"beyond"', "1e400"), "utf-8")
            assert found_in(tmp_path / "result.json"), path


@pytest.mark.slow
def test_a_large_file_is_refused(tmp_path: Path) -> None:
    result = golden()
    result["tests"] = result["tests"] * 500
    assert verified(renewed(result), tmp_path)
    result = golden() | {"kernels": ["x" * 10_000_000]}
    assert all(len(line) < 300 for line in verified(result, tmp_path))

"""The files of a run: a folder of their own, nothing overwritten, each file replaced as a whole."""

import csv
import io
import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from small_run import GOLDEN, golden, rebuilt

from hpcai.errors import HpcaiError
from hpcai.record.loading import load, result_of
from hpcai.report import files

DATE = datetime(2026, 7, 9, 5, 4, 3, tzinfo=UTC)
TEXTS = ["report.txt", "result.csv", "result.json"]
NAMES = ["SHA256SUMS", *TEXTS, "series.h5"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_folders_are_named_by_output_and_time_and_never_used_twice(here: Path) -> None:
    made = [files.create_folder("run.1", DATE) for _ in range(3)]
    name = "run.1-20260709T050403Z"
    assert made == [Path("results") / folder for folder in (name, f"{name}-2", f"{name}-3")]
    assert sorted(path.name for path in (here / "results").iterdir()) == [name, f"{name}-2", f"{name}-3"]


def test_a_file_with_the_folders_name_is_refused(here: Path) -> None:
    (here / "results").write_text("mine")
    with pytest.raises(HpcaiError, match="cannot make the result folder") as refused:
        files.create_folder("run", DATE)
    assert refused.value.exit_code == 3 and (here / "results").read_text() == "mine"


def test_the_files_of_a_run_are_written(tmp_path: Path) -> None:
    files.write(tmp_path, load(GOLDEN / "result.json"))
    assert sorted(os.listdir(tmp_path)) == NAMES
    for name in TEXTS:
        assert (tmp_path / name).read_bytes() == (GOLDEN / name).read_bytes(), name


def test_files_are_replaced_as_a_whole_without_temporary_files(tmp_path: Path) -> None:
    partial = golden()
    del partial["tests"][1]
    files.write(tmp_path, result_of(rebuilt(partial)))
    opened = (tmp_path / "result.json").open(encoding="utf-8")
    files.write(tmp_path, load(GOLDEN / "result.json"))
    with opened:
        assert json.load(opened) == rebuilt(partial)  # a reader keeps the file it has opened
    assert json.loads((tmp_path / "result.json").read_text("utf-8")) == golden()
    assert sorted(os.listdir(tmp_path)) == NAMES


def test_a_removed_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HpcaiError, match=r"cannot write .*report\.txt: No such file"):
        files.write(tmp_path / "gone", load(GOLDEN / "result.json"))


def test_text_of_all_scripts_is_preserved(tmp_path: Path) -> None:
    result = golden()
    result["ranks"][0]["host"] = "n\u0153ud-\u6f22"
    result = rebuilt(result)
    files.write(tmp_path, result_of(result))
    assert json.loads((tmp_path / "result.json").read_text("utf-8")) == result
    assert "n\u0153ud-\u6f22" in (tmp_path / "report.txt").read_text("utf-8")
    assert "n\u0153ud-\u6f22".encode() in (tmp_path / "result.json").read_bytes()  # unescaped


def test_table_quotes_commas_and_leaves_unreached_values_empty() -> None:
    result = golden()
    result["tests"][0]["settings"]["DATASET"] = 'fashion:/a,"b"'
    result["tests"][1]["scores"]["time_to_quality"] = None
    first, second = csv.DictReader(io.StringIO("".join(files.texts(result_of(result))["result.csv"])))
    assert first["dataset"] == 'fashion:/a,"b"'
    assert second["time_to_quality"] == "" and first["time_to_quality"] != ""


def test_a_run_without_tests_has_no_table() -> None:
    partial = golden()
    partial["tests"] = []
    assert "result.csv" not in files.texts(result_of(rebuilt(partial)))


def test_files_of_many_tests_are_counted_in_the_last_line() -> None:
    tests = [f"predictions-{number}.h5" for number in range(1, 390)]
    assert files.listed([*tests, "report.txt", "result.json"]) == "389 predictions-N.h5, report.txt and result.json"
    assert files.listed([*tests[:2], "report.txt"]) == "predictions-1.h5, predictions-2.h5 and report.txt"

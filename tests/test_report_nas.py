"""The printed lines of a search: readable by parsers, the score over time, the trials, and the file of trials."""

import csv
import io
import re
from typing import Any

import pytest
from msgspec import convert
from report_readers import assert_parsers_read_it, assert_report_matches, printed
from small_run import golden
from synthetic_search import searched, with_ensemble

from hpcai.record.loading import result_of
from hpcai.report import files
from hpcai.workloads.nas import lines as nas
from hpcai.workloads.nas import trial_lines as trials
from hpcai.workloads.nas.record import SearchRow

Json = dict[str, Any]


@pytest.mark.parametrize(
    "result",
    [searched(), with_ensemble(), searched("0.9 TARGET"), searched("row column MAPPING"), searched(run="3 REPEAT")],
    ids=["alone", "ensembles", "missed", "sweep", "repeated"],
)
def test_the_report_agrees_with_the_json(result: Json) -> None:
    report = files.report(result_of(result))
    if not result["summary"]["repeatability"]:
        assert_report_matches(report, result)
    assert_parsers_read_it(report, result)


def lines_after(report: str, title: str) -> list[list[str]]:
    """The words of the lines of a table, the header first."""
    table = report[report.index(f"\n{title}") :].split("\n\n")[0]
    return [line.split() for line in table.splitlines()[2:]]


def test_the_score_over_time_is_printed() -> None:
    head, *rows = lines_after(files.report(result_of(searched())), "Score over time")
    assert head == ["Time", "GOPS", "Accuracy", "Error", "Score", "Trials"]
    series = searched()["tests"][0]["scores"]["series"]
    assert len(rows) == len(series) == 50
    for row, point in zip(rows, series, strict=True):
        assert printed(row[0], point["seconds"], 2) and printed(row[1], point["ops"] / 1e9, 4)
        assert printed(row[2], point["accuracy"], 6) and printed(row[3], point["error"], 6)
        assert printed(row[4], point["regulated_score"] / 1e9, 4) and row[5] == str(point["trials"])


def test_a_long_series_is_condensed_and_includes_the_end() -> None:
    result = searched("0.01 INTERVAL")
    series = result["tests"][0]["scores"]["series"]
    _, *rows = lines_after(files.report(result_of(result)), "Score over time")
    assert len(series) > 600 and len(rows) <= nas.MOST_LINES + 1
    assert rows[-1][0] == f"{series[-1]['seconds']:.2f}"
    assert_parsers_read_it(files.report(result_of(result)), result)


def test_the_table_of_trials_is_printed() -> None:
    head, *rows = lines_after(files.report(result_of(searched())), "Trials\n")
    assert head[:5] == ["Trial", "Group", "Round", "Parent", "operation"] and head[-1] == "end"
    assert len(rows) == 9
    assert rows[0][:8] == ["1", "0", "1", "-", "initial", "32", "3", "1/1"]
    assert rows[8][:9] == ["9", "0", "5", "7", "kernel", "16", "5", "2/4", "0.450000"]
    assert [(row[0], row[-1]) for row in rows if row[8] == "-"] == [("4", "diverged"), ("8", "memory")]
    assert [row[-1] for row in rows] == [trial["verdict"] for trial in searched()["tests"][0]["trials"]]


def test_of_many_trials_the_best_and_the_newest_are_printed() -> None:
    test = searched()["tests"][0]
    row, raw = test["trials"][0], test["raw"]["trials"][0]
    test["trials"] = [row | {"id": n, "accuracy": (100 - n) / 100, "returned": float(n)} for n in range(1, 101)]
    test["raw"]["trials"] = [raw | {"id": n} for n in range(1, 101)]
    for trial in test["trials"]:
        trial["parent"] = None
    title, _, *lines = trials.trial_table(convert(test, SearchRow))
    assert title == "Trials: the best 20 and the newest others, 60 more in trials.csv"
    assert [int(line.split()[0]) for line in lines] == [*range(1, 21), *range(81, 101)]


def test_the_notes_are_printed() -> None:
    report = files.report(result_of(searched()))
    found = dict(re.findall(r"^(Trials  |Search  |Network |Differs |Status  ): (.*)$", report, re.MULTILINE))
    assert found["Trials  "].startswith("9 granted, by their end: 6 planned, 1 time, 1 diverged, 1 memory; 0 groups")
    assert found["Trials  "].endswith("the search ended by duration after 6.71 s")
    assert found["Search  "].startswith("11 proposals, 2 refused as known, 1 as beyond the limits; 30 requests")
    assert found["Network "].startswith("a search that began with resnet8 v1 at 28x28, rule model: 55849728 FLOP")
    assert "coordinator's rank trains as well" in found["Differs "]
    assert found["Status  "].startswith("UNOFFICIAL; dataset fashion-mnist-subset")


def test_the_summary_has_the_figures_of_the_search() -> None:
    scores = searched()["tests"][0]["scores"]
    for result, index in ((searched(), "index=1\n"), (with_ensemble(), "nas_index=3\n")):
        report = files.report(result_of(result))
        assert index in report
        for name in ("ops", "regulated_score", "idle_share"):
            assert f"{name}={scores[name]:.7f}\n" in report


def test_repetitions_are_summarised() -> None:
    report = files.report(result_of(searched(run="3 REPEAT")))
    rows = lines_after(report, "Repetitions with different seeds")
    names = [
        "FLOPS in GFLOP/s",
        "OPS, whole search, 10^9 per second",
        "regulated score, highest, 10^9",
        "quality of the best trial",
        "operations to quality, 10^9",
    ]
    assert all(" ".join(row).startswith(name) for row, name in zip(rows[2:], names, strict=True))
    assert len(rows) == 7 and "\ncv_percent_regulated_score=0.0000000\n" in report


def test_the_explanation_names_the_workload() -> None:
    assert "workload (3 nas)" in files.report(result_of(searched()))


def test_the_csv_file_of_trials() -> None:
    text = "".join(files.texts(result_of(with_ensemble()))["trials.csv"])
    rows = list(csv.DictReader(io.StringIO(text)))
    test = with_ensemble()["tests"][2]
    assert len(rows) == 9 and {row["test"] for row in rows} == {"3"}
    for row, trial in zip(rows, test["trials"], strict=True):
        known = {**trial, **trial["hyperparameters"], "test": 3}
        assert set(row) == {*known} - {"hyperparameters"}
        for name, cell in row.items():
            assert cell == ("" if known[name] is None else str(known[name])), name


def test_other_results_have_no_file_of_trials() -> None:
    assert "trials.csv" not in files.texts(result_of(golden()))


def test_result_csv_has_a_line_of_the_search() -> None:
    rows = list(csv.DictReader(io.StringIO("".join(files.texts(result_of(with_ensemble()))["result.csv"]))))
    assert [row["workload"] for row in rows] == ["ensemble", "ensemble", "nas"]
    assert rows[2]["valid_flops"] == "" and rows[2]["quality"] == "0.6"
    scores = with_ensemble()["tests"][2]["scores"]
    for name in ("ops", "regulated_score", "idle_share"):
        assert (rows[0][name], rows[2][name]) == ("", str(scores[name]))

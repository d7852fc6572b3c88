"""The printed report: byte for byte that of a stored result, readable by parsers of HPL, and equal to the JSON."""

import csv
import io
import re
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from report_readers import ROW, assert_parsers_read_it, assert_report_matches
from small_run import GOLDEN, REAL_RUNS, Run, failing_run, golden, live_run, rebuilt

from hpcai.inputfile import parse
from hpcai.record.loading import load, result_of
from hpcai.record.plain import plain
from hpcai.record.problem import input_of
from hpcai.record.result import Result
from hpcai.report import files
from hpcai.report.rows import row

Json = dict[str, Any]

HPL_ROW = "%-8s%12d %5d %5d %5d %18.2f    %19.4e"
SLOW_ROW = "%-8s%12d %5d %5d %5d %18.2f    %19.6f"


def stored() -> Result:
    """The stored result."""
    return load(GOLDEN / "result.json")


def test_the_report_of_the_stored_result() -> None:
    assert files.report(stored()).encode() == (GOLDEN / "report.txt").read_bytes()


def test_the_table_of_the_stored_result() -> None:
    assert "".join(files.texts(stored())["result.csv"]).encode() == (GOLDEN / "result.csv").read_bytes()


def test_stored_report_is_readable() -> None:
    report = (GOLDEN / "report.txt").read_text("utf-8")
    assert_report_matches(report, golden())
    assert_parsers_read_it(report, golden())
    passed = sum(check["verdict"] == "PASSED" for test in golden()["tests"] for check in test["checks"])
    assert (report.count("PASSED"), report.count("FAILED")) == (passed, 0)


MACHINE = re.compile(
    r"^(Machine |Software|MPI  |Layer [3-7]|WARNING|Slowest|Telemetry|Traffic |Energy  |Residual: worst| +[0-9]+ "
    r"|(Outputs|Weights) : worst"
    r"| +predictions and votes: counts not confirmed="  # the stored result keeps no predictions
    r"| +(mean power,|Valid FLOPS per watt|energy (of|per)|(received|sent) (between|within))).*\n",
    re.MULTILINE,
)
# The place of the largest rounding error depends on the processor.
CHANGING = re.compile(
    r"(?<=entropy )\w+|(?<=time, checks beside it )[\d.%]+|(?<=copies of steps )[\d.%]+|"
    r"(?<=largest deviation: ).+|(?<=largest lost: ).+|"
    r"(?<=HPCAI bench )\S+|(?<=fingerprint=)\w+|(?<=version=)\S+|\d{4}-\d\d-\d\dT[\d:+]+|(?<=backend )(gloo|nccl)"
    r"|(?<=\n)(index|P|Q)=\d+|\s*(?!0\.0000000\b)\b\d+\.\d+(e[+-]\d+)?"
)


def masked(report: str) -> str:
    """A report without the parts that differ between two runs of one problem, by time or by machine."""
    return CHANGING.sub("#", MACHINE.sub("", report))


def test_the_report_of_a_real_run_is_the_stored_one_except_for_times_and_machine() -> None:
    assert masked((live_run().folder / "report.txt").read_text("utf-8")) == masked(files.report(stored()))
    assert len(masked(files.report(stored())).splitlines()) > 120


@REAL_RUNS
def test_real_reports_agree_with_the_json(run: Callable[[], Run]) -> None:
    made = run()
    report = (made.folder / "report.txt").read_text("utf-8")
    assert_report_matches(report, made.result)
    assert_parsers_read_it(report, made.result)
    assert made.job.stdout == report


@REAL_RUNS
def test_the_table_of_a_real_run_agrees_with_the_json(run: Callable[[], Run]) -> None:
    text, result = (run().folder / "result.csv").read_text("utf-8"), run().result
    environment = result["environment"]
    machine = f"{environment['processor']} x 1 node"
    own = {"site": result["input"]["headers"][0], "system": machine, "machine": machine}
    for cells, test in zip(csv.DictReader(io.StringIO(text)), result["tests"], strict=True):
        settings = {name.lower(): value for name, value in test["settings"].items()}
        known = {**result, **environment, **settings, **own, **test, **test["scores"]}
        for name, cell in cells.items():
            value = known[name]
            assert (cell == "") if value is None else (type(value)(cell) == value), name


@pytest.mark.slow
def test_a_diverged_test_is_failed_and_the_next_one_still_runs() -> None:
    run = failing_run()
    assert [test["verdict"] for test in run.result["tests"]] == ["FAILED", "PASSED"]
    assert run.job.returncode == 1 and run.result["summary"]["valid"] == "INVALID"
    assert run.result["summary"]["best"][0]["index"] == 2
    assert "\n                         loss not finite: models=        2.0000000 ...... FAILED\n" in run.job.stdout


@pytest.mark.parametrize("gflops", [1.0, 51.235, 123456789.0, 0.9999994, 0.000123])
@pytest.mark.parametrize("n", [1, 60000, 10**11 - 1])
def test_row_has_the_format_of_hpl(n: int, gflops: float) -> None:
    test = replace(stored().tests[0], n=n, gflops=gflops, seconds=12.345)
    words = ("WR10S1V4", n, 32, 2, 1, 12.345, gflops)
    assert row(test) == (HPL_ROW if gflops >= 1 else SLOW_ROW) % words


def test_row_stays_in_columns_however_large_the_numbers() -> None:
    test = replace(stored().tests[0], n=10**15, nb=10**6, p=10**6, q=10**6, seconds=1e18, gflops=1e15)
    words = ["WR10S1V4", f"{10**15}", f"{10**6}", f"{10**6}", f"{10**6}", f"{10**18}.00", "1.0000e+15"]
    assert row(test).split() == words and ROW.match(row(test))


def test_the_banner_names_the_program_and_its_version() -> None:
    lines = files.report(stored()).splitlines()
    given = golden()["input"]
    assert lines[0] == lines[5] == "=" * 80
    assert lines[1].startswith("HPCAI bench 0.1.0: ") and lines[1].endswith(golden()["date"])
    assert lines[2] == f"Input  : input.dat, schema hpcai-result/5, sha256 {given['digest']}"
    assert lines[3:5] == [f"Header : {header}" for header in given["headers"]]
    assert "An explanation of the input/output parameters follows:" in lines
    assert "The following parameter values will be used:" in lines


def test_the_echo_reproduces_the_run() -> None:
    report = files.report(stored())
    begin = report.index("The following parameter values will be used:")
    text = report[begin : report.index("Machine :")].split("\n", 1)[1]
    again = plain(input_of(parse("a\nb\n" + text)))
    given = golden()["input"]
    for section in (*again["sections"], *given["sections"]):
        for key in section["keys"].values():
            del key["default"]
    assert again["sections"] == given["sections"]
    assert [key["value"] for key in again["run"].values()] == [key["value"] for key in given["run"].values()]
    keys = [*given["run"].values(), *plain(input_of(parse(given["text"])))["sections"][0]["keys"].values()]
    assert report.count("(default)") == sum(key["default"] for key in keys)


def test_ranks_beyond_the_listed_ones_are_counted() -> None:
    idle, warnings = ("Grid 2 x 1: ranks 2-999 stay idle",), ("64 of 64 ...",)
    many = replace(stored(), environment=replace(stored().environment, ranks=1000, idle=idle, warnings=warnings))
    lines = files.report(many).splitlines()
    rank_map = next(index for index, line in enumerate(lines) if line.startswith("   Rank     2x1 R     1x2 R"))
    assert lines[rank_map + 1].split() == ["0", "0", "0", "vm", "cpu", "1", many.ranks[0].cpus]
    assert lines[rank_map + 3].split() == ["...", "and", "998", "more", "ranks,", "condensed"]
    assert lines[rank_map + 4 : rank_map + 6] == ["Grid 2 x 1: ranks 2-999 stay idle", "WARNING: 64 of 64 ..."]


def test_rank_map_of_several_nodes_has_the_interface_of_each() -> None:
    report = stored()
    ranks = (replace(report.ranks[0], interface="eth0", address="198.18.0.1"), *report.ranks[1:])
    two = replace(report, ranks=ranks, environment=replace(report.environment, nodes=2))
    lines = files.report(two).splitlines()
    (first,) = (number for number, line in enumerate(lines) if line.lstrip().startswith("Rank "))
    place = lines[first].index("Interface")
    found = [line[place : place + 31].split() for line in lines[first + 1 : first + 3]]
    assert found == [["eth0", "198.18.0.1"], ["-"]]
    assert {line[place + 32 :].split()[0] for line in lines[first + 1 : first + 3]} == {"cpu"}
    assert "Interface" not in files.report(report)


def test_final_line_has_every_reason() -> None:
    (final,) = [line for line in files.report(stored()).splitlines() if line.startswith("Final Summary::")]
    reasons = [reason.partition(", official")[0] for reason in golden()["summary"]["reasons"]]
    assert final == "; ".join(["Final Summary::HPCAI result is UNOFFICIAL", *reasons]) and len(reasons) == 5


def test_reasons_that_do_not_fit_lose_the_official_values_only() -> None:
    reasons = [f"epochs {epochs}, official 90" for epochs in range(1, 21)]
    summary = stored().summary
    assert summary is not None
    every = ("checks FAILED, official PASSED", *summary.reasons[:2], *reasons)
    many = replace(stored(), summary=replace(summary, reasons=every))
    (final,) = [line for line in files.report(many).splitlines() if line.startswith("Final Summary::")]
    assert len(final) <= 200
    epochs = " ".join(map(str, range(1, 21)))
    assert final.endswith(f"; checks FAILED; dataset fashion-mnist-subset; samples 200; epochs {epochs}")


@pytest.mark.parametrize("ended", [0, 1])
def test_the_report_of_a_broken_off_run_has_no_end(ended: int) -> None:
    partial = golden()
    del partial["tests"][ended:]
    partial = rebuilt(partial)
    report = files.report(result_of(partial))
    assert report.endswith(f"\nBROKEN OFF after {ended} of 2 tests.\n")
    assert_parsers_read_it(report, partial)
    assert_report_matches(report, partial)
    assert f"result is INVALID; run broken off after {ended} of 2 tests" in report


def test_short_headers_are_echoed_as_they_are() -> None:
    text = stored().input.text.split("\n", 2)[2]
    given = input_of(parse(f"Institut f\u00fcr Physik, 2 nodes x 2\na = b | c\n{text}"))
    report = files.report(replace(stored(), input=given))
    assert "\nHeader : Institut f\u00fcr Physik, 2 nodes x 2\nHeader : a = b | c\n" in report

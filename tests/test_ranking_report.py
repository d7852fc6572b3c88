"""Reports without their result: read, checked against their own numbers, and listed apart from verified results."""

import csv
import re
from pathlib import Path

import pytest
from ranking_files import listed, of_site, with_power
from result_with_tables import result_with_tables
from result_with_weather import mixed_result
from small_run import GOLDEN, WEATHER

from hpcai import networks, opcount
from hpcai.errors import InputError
from hpcai.ranking.report_checks import contradictions
from hpcai.ranking.report_parser import parsed
from hpcai.record.loading import load
from hpcai.record.result import Result
from hpcai.report.files import report

Out = pytest.CaptureFixture[str]
TEXT = (GOLDEN / "report.txt").read_text("utf-8")
RESULTS = {
    "images": lambda: load(GOLDEN / "result.json"),
    "weather": lambda: load(WEATHER / "result.json"),
    "language": lambda: load(GOLDEN / "language" / "result.json"),
    "mixed": mixed_result,
    "tables": result_with_tables,
}
ROW = r"(WR10S1V4 .* {9,})"
# A pattern in the report, and what is said when another digit stands at its end.
DIGITS = {
    "Gflops of a row": (rf"{ROW}(\d)(?=\.\d{{4}}e)", "Gflops"),
    "Time of a row": (rf"{ROW[:-1]}0\.)(\d)", "credited / Time"),
    "FLOPS": (r"(\n +FLOPS in GFLOP/s= *)(\d)", "FLOPS"),
    "Valid FLOPS": (r"(Valid FLOPS in GFLOP/s= *\d\d)(\d)", "Valid FLOPS"),
    "best of the summary": (r"(\ngflops=\d)(\d)", "none of its rows"),
    "figure of the summary": (r"(\nvalid_gflops=\d+\.)(\d)", "none of its rows"),
}
# Another text for a part of the report, and what is said of it.
FAULTS = {
    "samples of a row": ("         800    32", "         900    32", "operations of a sample"),
    "credited operations": ("44679782400 credited", "54679782400 credited", "credited"),
    "quality": ("quality of the ensemble=        0.2280000", "quality of the ensemble=        0.2370000", "quality"),
    "target": (" target=        0.0500000", " target=        0.0600000", "target"),
    "quality / target": ("4.5600000 ...... REACHED", "4.6400000 ...... REACHED", "quality / target"),
    "REACHED": ("4.5600000 ...... REACHED", "4.5600000 ...... MISSED", "not REACHED"),
    "exponent": ("5              PENALTY", "4              PENALTY", "PENALTY"),
    "a check": ("0.0656369 ...... PASSED", "0.0656369 ...... FAILED", "FAILED"),
    "no check": ("...... PASSED", "...... NOT CHECKED", "no check that PASSED"),
    "counts": ("passed=2", "passed=1", "2 tests, 1 passed"),
    "failed": ("passed=2\nfailed=0", "passed=1\nfailed=1", "FAILED"),
    "status of the summary": ("valid=UNOFFICIAL", "valid=VALID", "status VALID"),
    "status of a row": ("Status  : UNOFFICIAL;", "Status  : VALID;", "status"),
    "final status": ("HPCAI result is UNOFFICIAL", "HPCAI result is VALID", "final summary VALID"),
    "ranks": ("      1         1         0  vm", "", "P x Q 2 x 1, 1 ranks in the rank map"),
    "fingerprint": ("fingerprint=", "fingerprint=z", "no fingerprint"),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_sound_report_contradicts_nothing(name: str) -> None:
    result: Result = RESULTS[name]()
    found = parsed(report(result))
    assert contradictions(found) == [] and len(found.rows) == len(result.tests)
    for row, test in zip(found.rows, result.tests, strict=True):
        assert (row.tv, row.n, row.p, row.q) == (test.tv, test.n, test.p, test.q)
        assert row.scores["flops"] == pytest.approx(test.scores.flops, abs=1e2)
        assert row.scores["quality"] == pytest.approx(test.scores.quality, abs=1e-7)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_contradiction_is_found(fault: str) -> None:
    before, after, words = FAULTS[fault]
    assert before in TEXT
    found = contradictions(parsed(TEXT.replace(before, after)))
    assert any(words in each for each in found), found


OFFICIAL = {"fashion-mnist-subset": "imagenet", "resnet8 v1.5 at 28x28": "resnet50 v1.5 at 224x224"}


def as_valid(names: dict[str, str]) -> list[str]:
    """What contradicts the report if it calls itself VALID and prints other names and operations."""
    text = re.sub(r"(Status  : )UNOFFICIAL;.*", r"\1VALID; as the official rules say", TEXT)
    text = text.replace("valid=UNOFFICIAL", "valid=VALID").replace("result is UNOFFICIAL", "result is VALID")
    for before, after in names.items():
        text = text.replace(before, after)
    return [each for each in contradictions(parsed(text)) if "operations of a sample" not in each]


def test_a_report_that_calls_itself_valid_has_the_official_problem_and_its_operations() -> None:
    official = str(opcount.count(networks.build("resnet50", (224, 224), 3, 1000), "model").total)
    assert as_valid({**OFFICIAL, "55849728 FLOP per sample": f"{official} FLOP per sample"}) == []
    assert all("FLOP per sample 55849728, official" in each for each in as_valid(OFFICIAL)) and as_valid(OFFICIAL)
    for name in OFFICIAL:
        said = as_valid({**OFFICIAL, name: name})
        assert any(f"{name}, official {OFFICIAL[name]}" in each for each in said), said
    assert any("dataset not printed" in each for each in as_valid({**OFFICIAL, "Data    :": "Dated   :"}))


def test_valid_flops_per_watt_without_energy_or_of_another_power_is_found() -> None:
    metered = report(with_power(of_site("Metered", ("ENERGY=meter:power.csv",)), 200.0))
    assert contradictions(parsed(metered)) == []
    no_energy = re.sub("^Energy  : .*", "Energy  : n/a, none", metered, flags=re.MULTILINE)
    assert any("but no Energy" in each for each in contradictions(parsed(no_energy)))
    other = re.sub(r"(mean power, W= *)200", r"\g<1>100", metered)
    assert any("Valid FLOPS per watt" in each for each in contradictions(parsed(other)))


@pytest.mark.parametrize("fault", DIGITS)
def test_another_digit_is_found(fault: str) -> None:
    pattern, words = DIGITS[fault]
    found = contradictions(parsed(another_digit(pattern)))
    assert any(words in each for each in found), found


def another_digit(pattern: str) -> str:
    """The report with another digit where the second group of the pattern is."""
    text, times = re.subn(pattern, lambda match: match[1] + str(int(match[2]) % 9 + 1), TEXT)
    assert times >= 1
    return text


def test_a_worse_row_as_the_best_one_is_found() -> None:
    result = load(GOLDEN / "result.json")
    best, other = result.tests
    names = {"index=1": "index=2", "gflops": f"{other.gflops:.7f}", "quality": f"{other.scores.quality:.7f}"}
    text = TEXT.replace("index=1", names["index=1"]).replace("P=2\nQ=1\n", "P=1\nQ=2\n")
    text = re.sub(r"^gflops=.*$", f"gflops={names['gflops']}", text, flags=re.MULTILINE)
    text = re.sub(r"^quality=.*$", f"quality={names['quality']}", text, flags=re.MULTILINE)
    text = re.sub(r"^time=.*$", f"time={other.seconds:.7f}", text, flags=re.MULTILINE)
    text = re.sub(r"^valid_gflops=.*$", f"valid_gflops={other.scores.valid_flops / 1e9:.7f}", text, flags=re.MULTILINE)
    text = re.sub(r"^apc_gflop=.*$", f"apc_gflop={other.scores.apc / 1e9:.7f}", text, flags=re.MULTILINE)
    assert best.gflops > other.gflops
    assert contradictions(parsed(text)) == ["the best row of [ensemble] in the summary is not the best of its rows"]


@pytest.mark.parametrize("text", ["", "nothing\n", "=" * 10_000_000, TEXT.replace("HPCAI bench", "Another bench")])
def test_a_text_that_is_no_report_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="no report of this program"):
        parsed(text)


def test_reports_are_in_lists_of_their_own(tmp_path: Path, capsys: Out) -> None:
    (tmp_path / "report.txt").write_text(TEXT)
    assert listed(tmp_path, WEATHER, "--no-cache", "--csv", tmp_path / "lists.csv") == 0
    lines = [*csv.DictReader((tmp_path / "lists.csv").read_text().splitlines())]
    reported = [line for line in lines if line["List"].startswith("from-report/")]
    assert {line["Workload"] for line in reported} == {"ensemble"} and len(reported) == 2
    assert {line["Verdict"] for line in reported} == {"from report"}
    assert {line["Verdict"] for line in lines if line not in reported} <= {"REACHED", "MISSED"}
    best = next(line for line in reported if line["P"] == "2")
    printed = re.search(r"valid_gflops=(.*)", TEXT)
    assert printed and float(best["Valid PFLOPS"]) == pytest.approx(float(printed[1]) / 1e6)
    assert (best["Dataset"], best["System"], best["Epochs"]) == ("fashion-mnist-subset", "AMD EPYC x 1 node", "2")
    assert "from report: printed numbers only, not verified" in capsys.readouterr().out


def test_a_report_without_its_end_is_listed_apart(tmp_path: Path, capsys: Out) -> None:
    path = tmp_path / "report.txt"
    path.write_text(TEXT.partition("Finished ")[0])
    assert listed(path) == 2
    assert f"{path}: from report: broken off" in capsys.readouterr().out


def test_a_contradicting_report_is_listed_apart(tmp_path: Path, capsys: Out) -> None:
    path = tmp_path / "report.txt"
    path.write_text(another_digit(DIGITS["Gflops of a row"][0]))
    assert listed(path) == 2
    said = capsys.readouterr().out
    assert "from report, not listed: WR10S1V4: Gflops" in said and "List " not in said

"""`python -P -m hpcai.ranking`: lists of verified results; each kind of unfit result is found and listed apart."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs
from ranking_files import listed, of_site, report_only, with_power, written
from result_with_tables import result_with_tables
from result_with_weather import mixed_result
from small_run import GOLDEN, WEATHER, renewed
from test_verify_broken import SIGNAL

from hpcai.ranking import cache
from hpcai.ranking.examine import examine
from hpcai.ranking.lists import ranked
from hpcai.ranking.submission import Submission
from hpcai.ranking.text import text_of
from hpcai.record.loading import load
from hpcai.record.plain import text
from hpcai.report import files
from hpcai.results.assembly import broken_off
from hpcai.results.summary import sealed
from hpcai.verification import verify

Out = pytest.CaptureFixture[str]
V3 = "List ensemble/fashion-mnist-subset/UNOFFICIAL/free/V3/fp32/target-0.05^5"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_stored_results_are_in_a_list_each(capsys: Out) -> None:
    assert listed(GOLDEN / "result.json", WEATHER) == 0
    said = capsys.readouterr().out
    lists = [line for line in said.splitlines() if line.startswith("List ")]
    weather = "List weather/generated-weather-2x48/UNOFFICIAL/free"
    assert lists == [V3.replace("V3", "V2"), V3, *(f"{weather}/{size}/fp32/target-0.001^10" for size in ("V2", "V3"))]
    assert "Not ranked" not in said and max(map(len, said.splitlines())) <= 132


def test_an_older_schema_is_ranked_by_todays_rules(capsys: Out) -> None:
    assert listed(GOLDEN / "schema3") == 0
    assert V3 in capsys.readouterr().out


def test_order_is_by_score_then_by_time(tmp_path: Path, capsys: Out) -> None:
    """The second site has a higher quality; the third equals the first but for its header."""
    for header, more in (("First", 0), ("Second", 10), ("Third", 0)):
        written(tmp_path / "runs" / header, of_site(header, more=more))
    assert listed(tmp_path / "runs", "--list", "V3", "--csv", tmp_path / "lists.csv") == 0
    lines = [*csv.DictReader((tmp_path / "lists.csv").read_text().splitlines())]
    assert [line["Site"] for line in lines] == ["Second", "First", "Third"]
    assert [line["Rank"] for line in lines] == ["1", "2", "3"]
    stored = load(GOLDEN / "result.json").tests[0]
    assert float(lines[1]["PFLOPS"]) == pytest.approx(stored.gflops / 1e6)
    assert float(lines[1]["Valid PFLOPS"]) == pytest.approx(stored.scores.valid_flops / 1e15)
    assert (lines[1]["P"], lines[1]["Q"], lines[1]["Rule"], lines[1]["Epochs"]) == ("2", "1", "model", "2")
    assert lines[1]["Kernel ceiling"] == lines[1]["kW"] == lines[1]["OPS"] == ""  # nothing measured them
    assert "V2" not in capsys.readouterr().out


def test_results_with_energy_are_in_a_second_list_by_valid_flops_per_watt(tmp_path: Path, capsys: Out) -> None:
    for header, watts in (("Hungry", 400.0), ("Frugal", 200.0)):
        metered = of_site(header, ("ENERGY=meter:power.csv",), more=10 * (header == "Hungry"))
        written(tmp_path / "runs" / header, with_power(metered, watts))
    written(tmp_path / "runs" / "Unmetered", of_site("Unmetered"))
    assert listed(tmp_path / "runs", "--list", "V3", "--csv", tmp_path / "lists.csv") == 0
    lines = [*csv.DictReader((tmp_path / "lists.csv").read_text().splitlines())]
    assert [line["Site"] for line in lines if line["List"].endswith("^5")] == ["Hungry", "Frugal", "Unmetered"]
    by_power = [line for line in lines if line["List"].endswith("^5/per-watt")]
    assert [(line["Site"], line["kW"], line["Power of"]) for line in by_power] == [
        ("Frugal", "0.2", "node, meter"),
        ("Hungry", "0.4", "node, meter"),
    ]
    valid, per_watt = (float(by_power[0][name]) for name in ("Valid PFLOPS", "Valid GFLOPS/W"))
    assert per_watt == pytest.approx(valid * 1e6 / 200)
    assert "ordered by Valid FLOPS per watt; verified" in capsys.readouterr().out


def test_fixed_watts_are_in_no_list_of_power(tmp_path: Path, capsys: Out) -> None:
    claimed = with_power(of_site("Claimed", ("ENERGY=2",)), 2.0, source="fixed")
    written(tmp_path / "runs", claimed)
    report_only(tmp_path / "report", with_power(of_site("Reported", ("ENERGY=3",)), 3.0, source="fixed"))
    assert listed(tmp_path / "runs", tmp_path / "report") == 0
    said = capsys.readouterr().out
    assert "Claimed" in said and "List from-report" in said and "per-watt" not in said


def test_the_column_that_orders_a_list_is_in_its_text(tmp_path: Path) -> None:
    """Also where wide columns of lower priority would leave no place for it."""
    written(tmp_path / "run", with_power(of_site("S" * 28, ("ENERGY=meter:power.csv",)), 200.0))
    found = examine(tmp_path / "run" / "result.json", None, "")
    assert isinstance(found, Submission)
    long = {"system": "y" * 28, "network": "z" * 28, "quality": 1e9, "accelerators": 10**9, "covers": "w" * 28}
    wide = [replace(line, **long, time_to_quality=1e9, regulated_score=1.0) for line in found.lines]
    for each in ranked([replace(found, lines=tuple(wide))]):
        assert ("Valid GFLOPS/W" if each.key.by else "Valid PFLOPS") in text_of([each], [])


def test_a_search_is_ranked_by_its_highest_ops(tmp_path: Path) -> None:
    result = mixed_result()
    path = written(tmp_path / "mixed", result)
    assert listed(path, "--csv", tmp_path / "lists.csv") == 0
    lines = [*csv.DictReader((tmp_path / "lists.csv").read_text().splitlines())]
    search = next(test for test in result.tests if test.workload == "nas")
    [line] = [line for line in lines if line["Workload"] == "nas"]
    assert float(line["OPS"]) == pytest.approx(search.scores.highest_ops)
    assert float(line["Regulated score"]) == pytest.approx(search.scores.regulated_score)
    assert line["List"].endswith("/UNOFFICIAL/free/fp32")  # P of a search is no ensemble
    assert {each["Workload"] for each in lines} == {"ensemble", "weather", "nas"}


def test_ceilings_of_tables_have_lists_of_their_own(tmp_path: Path, capsys: Out) -> None:
    result = result_with_tables(trained=False)
    path = tmp_path / "result.json"
    path.write_text(text(result), "utf-8")
    assert listed(path) == 0
    said = capsys.readouterr().out
    assert result.summary and result.summary.ceilings.gemm is not None
    assert "List kernels/GEMM ceiling, resnet8 8 auto/free" in said and f"{result.summary.ceilings.gemm:.4e}" in said
    assert "List kernels/convolution ceiling, resnet8 8 auto/free" in said and "Not ranked" not in said


def test_a_tampered_result_is_never_ranked(tmp_path: Path, capsys: Out) -> None:
    path = written(tmp_path / "run", of_site("Tampered")) / "result.json"
    document = json.loads(path.read_text())
    document["tests"][0]["raw"]["ensemble"]["correct"] += 100
    path.write_text(json.dumps(renewed(document)))
    assert listed(path) == 2
    said = capsys.readouterr().out
    assert "List " not in said and f"{path}: NOT VERIFIED: " in said


def test_a_tampered_report_beside_a_result_is_found(tmp_path: Path, capsys: Out) -> None:
    folder = written(tmp_path / "run", of_site("Tampered"))
    (folder / "report.txt").write_text((folder / "report.txt").read_text().replace("0.2280000", "0.2380000"))
    assert listed(folder) == 2
    assert "NOT VERIFIED: report.txt, line" in capsys.readouterr().out


def test_an_invalid_result_is_listed_apart(tmp_path: Path, capsys: Out) -> None:
    result = of_site("Other penalty", ("PENALTY=4",))
    assert result.summary and result.summary.valid == "INVALID"
    folder = written(tmp_path / "run", result)
    report = report_only(tmp_path / "report", result)
    assert listed(folder, report, "--no-cache") == 2
    said = capsys.readouterr().out
    assert "List " not in said and f"{folder / 'result.json'}: INVALID: " in said and "penalty 4, official 5" in said
    assert f"{report}: from report: HPCAI result is INVALID" in said


def test_the_same_run_counts_once(tmp_path: Path, capsys: Out) -> None:
    first, second = (written(tmp_path / "runs" / name, of_site("Twice")) for name in ("a", "b"))
    report = report_only(tmp_path / "a-report", of_site("Twice"))
    assert listed(report, tmp_path / "runs") == 0
    said = capsys.readouterr().out
    for path in (report, second / "result.json"):  # the verified result counts, whatever stands first
        assert f"{path}: the same run as {first / 'result.json'}, counts once" in said
    assert said.count("Twice") == 2 and "from-report" not in said  # once in V2, once in V3


def test_an_older_result_and_its_report_are_one_run(tmp_path: Path, capsys: Out) -> None:
    stored = json.loads((GOLDEN / "schema3" / "result.json").read_text())["summary"]["fingerprint"]
    report = report_only(tmp_path / "report", of_site("Older"))
    report.write_text(re.sub("fingerprint=.*", f"fingerprint={stored}", report.read_text()))
    assert listed(report, GOLDEN / "schema3") == 0
    assert f"{report}: the same run as {GOLDEN / 'schema3' / 'result.json'}, counts once" in capsys.readouterr().out


def test_a_broken_off_run_is_listed_apart(tmp_path: Path, capsys: Out) -> None:
    whole = of_site("Ended early")
    stopped = broken_off(verify.cases_of(whole)[1], SIGNAL, None)
    bare = structs.replace(whole, tests=whole.tests[:1], broken_off=stopped)
    result = sealed(bare, 2)
    folder = written(tmp_path / "run", result)
    report = report_only(tmp_path / "report", result)
    assert listed(folder, report) == 2
    said = capsys.readouterr().out
    assert f"{folder / 'result.json'}: broken off after 1 of 2 tests" in said
    assert f"{report}: from report: broken off" in said and "List " not in said


def test_many_files_are_examined_by_several_processes(tmp_path: Path, capsys: Out) -> None:
    for number in range(10):
        folder = tmp_path / "runs" / str(number)
        folder.mkdir(parents=True)
        (folder / "result.json").write_text(text(of_site(f"Site {number}")), "utf-8")
    assert listed(tmp_path / "runs", "--jobs", 2, "--list", "V3") == 0
    assert sum("Site " in line for line in capsys.readouterr().out.splitlines()) == 10 + 1  # and the heading


def test_only_sound_contents_are_in_the_cache(tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path / "run", of_site("Known"))
    assert listed(folder) == 0
    entries = {path.name for path in (tmp_path / "cache/hpcai/ranking").iterdir()}
    assert len(entries) == 2 and cache.KEY in entries
    unchanged = verify.differences
    monkeypatch.setattr(verify, "differences", lambda path: pytest.fail("verified again"))
    assert listed(folder) == 0
    monkeypatch.setattr(verify, "differences", unchanged)
    (folder / "report.txt").write_text("other")
    assert listed(folder) == 2
    assert "NOT VERIFIED" in capsys.readouterr().out
    assert {path.name for path in (tmp_path / "cache/hpcai/ranking").iterdir()} == entries


def test_a_damaged_or_foreign_entry_does_not_count(tmp_path: Path, capsys: Out) -> None:
    folder, kept = written(tmp_path / "run", of_site("Known")), tmp_path / "cache/hpcai/ranking"
    assert listed(folder) == 0
    [entry] = [path for path in kept.iterdir() if path.name != cache.KEY]
    found = cache.opened()
    assert found and found.knows(entry.name)
    other = kept / ("0" * 64)
    other.write_bytes(entry.read_bytes())  # a renamed entry
    assert not found.knows(other.name)
    assert not with_key(found, b"1" * cache.KEY_BYTES).knows(entry.name)  # an entry of another user's key
    entry.write_bytes(b"")
    assert not found.knows(entry.name)
    kept.chmod(0o777)  # others could write entries
    assert cache.opened() is None
    assert listed(folder) == 0
    assert "Not ranked" not in capsys.readouterr().out


def with_key(found: cache.Cache, key: bytes) -> cache.Cache:
    """The same folder with another key."""
    return cache.Cache(found.folder, key)


def test_contents_that_change_while_they_are_verified(
    tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written(tmp_path / "run", of_site("Changing"))

    def altering(path: Path) -> list[str]:
        files.write(folder, of_site("Changed"))
        return []

    monkeypatch.setattr(verify, "differences", altering)
    assert listed(folder) == 2
    said = capsys.readouterr().out
    assert "the files changed while they were read" in said and "List " not in said

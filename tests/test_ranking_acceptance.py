"""`python -P -m hpcai.ranking --baseline`: nodes that are slower are found, and what cannot be compared is refused."""

import csv
from pathlib import Path

import pytest
from msgspec import structs
from ranking_files import listed, of_site, report_only, with_tables_of, written
from small_run import WEATHER

from hpcai.errors import InputError
from hpcai.ranking import cache
from hpcai.ranking.acceptance.compare import Baseline, compared
from hpcai.ranking.acceptance.metrics import Measured, Part
from hpcai.ranking.acceptance.rules import SHIPPED, Rule, rules_of
from hpcai.record.result import Result
from hpcai.results.summary import sealed
from hpcai.verification import verify

Out = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def node(host: str, slower: float = 1.0, more: int = 0, changes: tuple[str, ...] = ()) -> Result:
    """The stored result as of another host, whose training took so many times as long."""
    stored = of_site(f"Node {host}", changes, more)
    ranks = tuple(structs.replace(rank, host=host) for rank in stored.ranks)
    tests = []
    for test in stored.tests:
        phases = structs.replace(test.raw.phases, training=test.raw.phases.training * slower)
        busy = structs.replace(test.raw.busy_seconds, slowest_host=host)
        tests.append(structs.replace(test, raw=structs.replace(test.raw, phases=phases, busy_seconds=busy)))
    return verify.rebuilt(structs.replace(stored, ranks=ranks, tests=tuple(tests)))


def wrong_node() -> Result:
    """A result with a FAILED check."""
    stored = node("wrong")
    first, *others = stored.tests
    replay = structs.replace(first.raw.replay, changed_ranks=1)
    wrong = structs.replace(first, raw=structs.replace(first.raw, replay=replay))
    return verify.rebuilt(structs.replace(stored, tests=(wrong, *others)))


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    """Results of five nodes; n3 is 8 % slower than n0, the others 2 % at most."""
    for host, slower in {"n0": 1.0, "n1": 1.01, "n2": 1.02, "n3": 1 / 0.92, "n4": 1.015}.items():
        written(tmp_path / "nodes" / host, node(host, slower))
    return tmp_path / "nodes"


def test_a_node_below_the_others_is_named(nodes: Path, tmp_path: Path, capsys: Out) -> None:
    assert listed(nodes, "--baseline", "median", "--csv", tmp_path / "lines.csv") == 1
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == "Acceptance: 5 results compared, 4 PASSED, 1 FAILED, 0 not compared"
    tests = "1 WR10S1V4 2 x 1 gflops -6.6 %; 2 WR11S1V4 1 x 2 gflops -6.6 %"
    assert said[-2] == f"FAILED: n3 ({nodes / 'n3' / 'result.json'}): {tests}"
    lines = [*csv.DictReader((tmp_path / "lines.csv").read_text().splitlines())]
    assert len(lines) == 5 * 2 * 2  # results, tests, Gflops and quality
    assert {line["Host"] for line in lines if line["Verdict"] == "FAILED"} == {"n3"}
    slow = next(line for line in lines if line["Host"] == "n3")
    assert float(slow["Change %"]) == pytest.approx(100 * (0.92 * 1.015 - 1), abs=1e-6)


def test_nodes_that_agree_are_accepted(nodes: Path, capsys: Out) -> None:
    paths = [nodes / name for name in ("n0", "n1", "n2", "n4")]
    assert listed(*paths, "--baseline", "median") == 0
    assert "4 results compared, 4 PASSED, 0 FAILED" in capsys.readouterr().out


@pytest.mark.parametrize(("least", "code"), [(0.93, 1), (0.91, 0)])
def test_rules_of_a_file_decide(least: float, code: int, nodes: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(f"[tests]\ngflops = {{ least = {least} }}\n")
    assert listed(nodes / "n3", "--baseline", nodes / "n0", "--rules", rules) == code


def test_a_result_of_which_no_rule_compares_anything_is_not_compared(nodes: Path, tmp_path: Path, capsys: Out) -> None:
    (tmp_path / "rules.toml").write_text("[ceilings]\ngemm = { least = 0.95 }\n")
    assert listed(nodes / "n1", "--baseline", nodes / "n0", "--rules", tmp_path / "rules.toml") == 1
    out = capsys.readouterr().out
    assert "result.json: no rule compares any of its values" in out
    assert "0 results compared, 0 PASSED, 0 FAILED, 1 not compared" in out


def test_more_than_the_most_fails(nodes: Path, tmp_path: Path, capsys: Out) -> None:
    (tmp_path / "rules.toml").write_text("[tests]\nseconds = { most = 1.05 }\n")
    assert listed(nodes / "n3", nodes / "n1", "--baseline", nodes / "n0", "--rules", tmp_path / "rules.toml") == 1
    assert "2 results compared, 1 PASSED, 1 FAILED" in capsys.readouterr().out


def test_ceilings_of_tables_are_compared(tmp_path: Path, capsys: Out) -> None:
    for name, share in (("base", 1.0), ("slow", 0.9)):
        written(tmp_path / name, with_tables_of(share))
    assert listed(tmp_path / "slow", "--baseline", tmp_path / "base") == 1
    failed = [line for line in capsys.readouterr().out.splitlines() if line.endswith("FAILED")]
    assert failed and all("ceilings of a rank" in line and "-10.0" in line for line in failed)


def test_worse_quality_and_a_failed_check_fail(nodes: Path, tmp_path: Path, capsys: Out) -> None:
    written(tmp_path / "worse", node("worse", more=-30))
    assert listed(tmp_path / "worse", "--baseline", nodes / "n0") == 1
    assert "quality -6.6 %" in capsys.readouterr().out
    written(tmp_path / "wrong", wrong_node())
    assert listed(tmp_path / "wrong", "--baseline", nodes / "n0") == 1
    assert "a check is FAILED" in capsys.readouterr().out


def test_what_cannot_be_compared_is_not_accepted(nodes: Path, tmp_path: Path, capsys: Out) -> None:
    tampered = written(tmp_path / "more" / "tampered", node("x")) / "result.json"
    tampered.write_text(tampered.read_text().replace('"gflops"', '"gflops" ', 1).replace("0.227", "0.327", 1))
    report_only(tmp_path / "more" / "report", node("y"))
    other = node("z")
    environment = structs.replace(other.environment, processor="Another processor")
    written(tmp_path / "more" / "other", sealed(structs.replace(other, environment=environment), 2))
    assert listed(nodes / "n0", tmp_path / "more", "--baseline", nodes / "n1") == 1
    said = capsys.readouterr().out
    assert "a report alone is not compared" in said and "processor is Another processor, of the baseline" in said
    assert said.endswith("Acceptance: 1 result compared, 1 PASSED, 0 FAILED, 3 not compared\n")


def test_tests_with_other_settings_are_not_those_of_the_baseline(nodes: Path, tmp_path: Path, capsys: Out) -> None:
    written(tmp_path / "other", node("n9", changes=("TARGET=0.06",)))
    assert listed(tmp_path / "other", "--baseline", nodes / "n0") == 1
    said = capsys.readouterr().out
    assert "FAILED: not in the result" in said and "NOT CHECKED: not in the baseline" in said


def test_other_software_is_told(nodes: Path, tmp_path: Path, capsys: Out) -> None:
    newer = node("n7")
    environment = structs.replace(newer.environment, packages={**newer.environment.packages, "torch": "9.9"})
    written(tmp_path / "newer", sealed(structs.replace(newer, environment=environment), 2))
    assert listed(tmp_path / "newer", "--baseline", nodes / "n0") == 0
    torch = newer.environment.packages["torch"]
    assert f"Differs : torch {torch} of the baseline, 9.9" in capsys.readouterr().out


def test_a_run_broken_off_is_not_compared_and_no_baseline(nodes: Path, tmp_path: Path, capsys: Out) -> None:
    stored = node("n8")
    written(tmp_path / "broken", sealed(structs.replace(stored, tests=stored.tests[:1]), 2))
    assert listed(nodes / "n0", tmp_path / "broken", "--baseline", nodes / "n1") == 1
    assert "broken off after 1 of 2 tests" in capsys.readouterr().out
    with pytest.raises(InputError, match="no baseline: .*broken off after 1 of 2 tests"):
        listed(nodes, "--baseline", tmp_path / "broken")


def test_a_baseline_with_a_failed_check_is_refused(nodes: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no baseline: a check of each result is FAILED"):
        listed(nodes, "--baseline", written(tmp_path / "wrong", wrong_node()))


def test_a_failed_table_fails(tmp_path: Path, capsys: Out) -> None:
    sound, made = with_tables_of(1.0), with_tables_of(1.0)
    table, *others = made.tables
    first, *rows = table.raw.rows
    wrong = structs.replace(table, raw=structs.replace(table.raw, rows=(structs.replace(first, residual=99.0), *rows)))
    written(tmp_path / "base", sound)
    written(tmp_path / "wrong", verify.rebuilt(structs.replace(made, tables=(wrong, *others))))
    assert listed(tmp_path / "wrong", "--baseline", tmp_path / "base") == 1
    assert "1 [kernels] a check is FAILED" in capsys.readouterr().out


def test_the_median_of_two_is_refused(nodes: Path) -> None:
    with pytest.raises(InputError, match="the median of 2 results; allowed: 3 results or more"):
        listed(nodes / "n0", nodes / "n3", "--baseline", "median")


def test_each_of_several_slow_nodes_below_a_long_path_is_named(nodes: Path, tmp_path: Path, capsys: Out) -> None:
    folder = tmp_path / ("x" * 150) / ("y" * 150)
    for host in ("s0", "s1"):
        written(folder / host, node(host, 1.2))
    assert listed(folder, nodes / "n0", "--baseline", nodes / "n1") == 1
    assert "3 results compared, 1 PASSED, 2 FAILED" in capsys.readouterr().out


def test_where_smaller_is_better_a_larger_value_fails() -> None:
    rule = Rule("tests", "quality", 0.95, None)
    part = Part("tests", "1", {"quality": 1.0}, smaller=("quality",))
    for value, verdict in ((0.9, "PASSED"), (1.05, "PASSED"), (1.06, "FAILED")):
        one = Measured("a", "f", "h", {}, {}, {"x": Part("tests", "1", {"quality": value}, smaller=("quality",))})
        [line] = compared(one, Baseline(1, {}, {}, {"x": part}), [rule])
        assert line.verdict == verdict


def test_a_baseline_without_results_is_refused(nodes: Path, tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", report_only(tmp_path / "report", node("y"))):
        with pytest.raises(InputError, match="no baseline"):
            listed(nodes, "--baseline", path)


def test_nothing_to_compare_is_refused(tmp_path: Path, capsys: Out) -> None:
    (tmp_path / "result.json").write_text("{")
    with pytest.raises(InputError, match="nothing to compare: .*result.json: "):
        listed(tmp_path, "--baseline", "median")


def test_results_without_anything_in_common_are_not_accepted(nodes: Path) -> None:
    assert cache.opened() and listed(WEATHER, "--baseline", WEATHER) == 0
    assert listed(WEATHER, "--baseline", nodes / "n0") == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no rule"),
        ("[tests", "rules"),
        ("gflops = 0.9", "allowed: \\[tests\\] and \\[ceilings\\]"),
        ("[tests]\nspeed = { least = 1 }", "no metric 'speed'; allowed: seconds, gflops"),
        ("[tests]\ngflops = 0.9", "allowed: a table of least, most or both"),
        ("[tests]\ngflops = { lest = 0.9 }", "allowed: a table of least, most or both"),
        ("[ceilings]\ngemm = { least = '1' }", "gemm, least: '1'; allowed: a share"),
        ("[ceilings]\ngemm = { most = nan }", "gemm, most: nan; allowed: a share"),
        ("[ceilings]\ngemm = { most = true }", "gemm, most: True; allowed: a share"),
    ],
)
def test_wrong_rules_are_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text(text)
    with pytest.raises(InputError, match=words):
        rules_of(tmp_path / "rules.toml")


def test_the_shipped_rules_are_sound_and_options_without_a_baseline_are_refused(capsys: Out) -> None:
    assert {rule.metric for rule in rules_of(SHIPPED)} >= {"gflops", "quality", "gemm", "convolution"}
    with pytest.raises(InputError, match="rules .*: No such file"):
        rules_of(Path("nowhere.toml"))
    with pytest.raises(SystemExit):
        listed("tests/golden", "--rules", SHIPPED)
    assert "--rules needs --baseline" in capsys.readouterr().err

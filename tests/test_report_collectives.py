"""The printed table of collectives, its schema, and what its raw numbers owe the input and the machine."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from hpcai.report.collectives import block
from hpcai.report.consistency.collectives import claims
from hpcai.result.collectives import ONE_RANK, TOO_SMALL, blocks, fits, rows, verdict
from measured_collectives import CLUSTER, NODE, case_of, raw_of, row, single_node, two_nodes
from report_readers import LOOSE_ROW

from hpcai.inputfile import Case
from hpcai.report.schema.check import violations
from hpcai.report.schema.collectives import FIT, RAW, ROW
from hpcai.report.schema.kinds import list_of

Json = dict[str, Any]

# As readers of nccl-tests' output take their rows apart, with one set of times instead of two.
TABLE_ROW = re.compile(r"^ +(\d+) +(\d+) +(\w+) +(\w+) +(-?\d+) +([\d.]+) +([\d.]+) +([\d.]+) +(\d+)$", re.MULTILINE)


def printed(case: Case, raw: Json) -> tuple[str, list[Json]]:
    found = rows(case, raw)
    settings = dict(case.settings)
    table = {"index": 3, "settings": settings, "raw": raw, "verdict": verdict(found), "fits": fits(found)}
    return block(table, found), found


def test_rows_are_laid_out_as_nccl_tests_lay_them_out() -> None:
    text, found = printed(*single_node())
    told = TABLE_ROW.findall(text)
    assert len(told) == len(found) == 3 * 2 * 4 * 4
    for words, each in zip(told, found, strict=True):
        exact = (each["nbytes"], each["count"], each["type"], each["redop"], each["root"])
        assert words[:5] == tuple(map(str, exact))
        assert float(words[5]) == pytest.approx(1e6 * each["seconds"], abs=0.01)
        assert [float(word) for word in words[6:8]] == pytest.approx(
            [each["algbw"] / 1e9, each["busbw"] / 1e9], abs=0.001
        )
        assert words[8] == str(each["wrong"])
    header = "#       size         count      type   redop    root "
    assert text.count(header) == len(blocks(found)) == 24
    averages = re.findall(r"^# Average bus bandwidth, (\w+) over (\w+) by (\w+): [\d.]+ GB/s \.{6} PASSED$", text, re.M)
    assert averages == [*blocks(found)]
    assert "# Average bus bandwidth of all 96 rows: " in text
    assert "Skipped: node: the same ranks as world\nSkipped: between: one rank\n" in text


def test_no_line_is_a_row_to_parsers_of_hpl() -> None:
    case, raw = two_nodes()
    raw["rows"].append(row("broadcast", 2**40, seconds=1e5))
    text, _ = printed(case, raw)
    for line in text.splitlines():
        assert not LOOSE_ROW.search(line) and "WR" not in line and " Gflops" not in line and len(line) <= 200, line


def test_a_wrong_element_fails_its_block_and_the_test() -> None:
    case, raw = single_node()
    raw["rows"][0]["wrong"] = 12
    text, _ = printed(case, raw)
    assert len(re.findall("FAILED$", text, re.MULTILINE)) == 2
    assert "Collectives, test 3: P x Q = 2 x 2, mapped by row ...... FAILED" in text
    assert re.search(r"^# Average bus bandwidth, all_reduce over world by gloo: .* FAILED$", text, re.MULTILINE)
    assert TABLE_ROW.findall(text)[0][8] == "12"


def test_nothing_to_measure_is_said() -> None:
    skipped = dict.fromkeys(("world", "group", "across", "node", "between"), ONE_RANK)
    case = case_of(1, 1)
    raw = raw_of(case, {}, skipped)
    text, _ = printed(case, raw)
    assert text.count(": one rank\n") == 5 and text.count("PASSED") == 1
    assert not [*claims(case, raw, NODE)]


def test_models_that_fit_are_printed_with_their_bandwidth() -> None:
    case = case_of(1, 2, (1024, 2**20))
    raw = raw_of(case, {"world": 2}, {}, lambda nbytes: 25e-6 + nbytes * 0.5e-9)
    text, _ = printed(case, raw)
    assert re.search(r"^ +broadcast +world +mpi +25\.00 +2\.000 +0\.0$", text, re.MULTILINE)
    flat = raw_of(case, {"world": 2}, {}, lambda nbytes: 1e-3)
    assert re.search(r"^ +broadcast +world +mpi +1000\.00 +n/a +0\.0$", printed(case, flat)[0], re.MULTILINE)


@pytest.mark.parametrize("made", [single_node, two_nodes])
def test_sound_measurements_fit_the_schema_and_fulfil_every_claim(made: Callable[[], tuple[Case, Json]]) -> None:
    case, raw = made()
    found = rows(case, raw)
    assert not [*claims(case, raw, NODE if made is single_node else CLUSTER)]
    assert not [*violations(raw, RAW), *violations(found, list_of(ROW)), *violations(fits(found), list_of(FIT))]


def test_what_was_left_out_row_by_row_is_told_and_accepted() -> None:
    case = case_of(1, 3, (8, 1024))
    raw = raw_of(case, {"world": 3}, {"group": "the same ranks as world", "across": ONE_RANK})
    raw["skipped"] += [{"scope": "node", "why": "the same ranks as world"}, {"scope": "between", "why": ONE_RANK}]
    small = [each for each in raw["rows"] if each["count"] == 0]
    raw["rows"] = [each for each in raw["rows"] if each["count"] > 0]
    which = [{name: each[name] for name in ("scope", "by", "collective")} for each in small]
    raw["skipped"] += [{**each, "nbytes": 8, "why": TOO_SMALL} for each in which]
    assert len(small) == 4 and not [*claims(case, raw, NODE)] and not [*violations(raw, RAW)]
    assert "Skipped: world, all_gather by mpi, 8 B: less than one element for each rank\n" in printed(case, raw)[0]
    lacking = {"scope": "world", "by": "gloo", "collective": "all_gather"}
    raw["rows"] = [each for each in raw["rows"] if not lacking.items() <= each.items()]
    raw["skipped"] = [each for each in raw["skipped"] if not lacking.items() <= each.items()]
    assert [*claims(case, raw, NODE)]
    raw["skipped"].append({**lacking, "why": "not supported"})
    assert not [*claims(case, raw, NODE)]
    assert "Skipped: world, all_gather by gloo: not supported\n" in printed(case, raw)[0]


def _all(name: str, value: Any) -> Callable[[Json], None]:
    return lambda raw: [each.update({name: value}) for each in raw["rows"]] and None


def _first(name: str, value: Any) -> Callable[[Json], None]:
    return lambda raw: raw["rows"][0].update({name: value})


def _renamed(old: str, new: str) -> Callable[[Json], None]:
    return lambda raw: [each.update(by=new) for each in raw["rows"] if each["by"] == old] and None


def _without(scope: str) -> Callable[[Json], None]:
    def alter(raw: Json) -> None:
        raw["rows"] = [each for each in raw["rows"] if each["scope"] != scope]
        raw["skipped"] = [each for each in raw["skipped"] if each["scope"] != scope]

    return alter


def _skip_instead(scope: str, why: str) -> Callable[[Json], None]:
    def alter(raw: Json) -> None:
        _without(scope)(raw)
        raw["skipped"].append({"scope": scope, "why": why})

    return alter


ALTERATIONS = {
    "a row less": lambda raw: raw["rows"].pop(),
    "a row twice": lambda raw: raw["rows"].append(raw["rows"][-1]),
    "rows exchanged": lambda raw: raw["rows"].insert(0, raw["rows"].pop()),
    "another size": _first("nbytes", 2048),
    "another count": _first("count", 255),
    "another operation": _first("redop", "none"),
    "another root": _first("root", 0),
    "no time": _first("seconds", 0.0),
    "one iteration": _first("iterations", 1),
    "other ranks": _first("ranks", 3),
    "other ranks everywhere": _all("ranks", 3),
    "a GPU's backend": _renamed("gloo", "nccl"),
    "MPI alone": _renamed("gloo", "mpi"),
    "no MPI": _renamed("mpi", "nccl"),
    "a scope unheard of": _without("between"),
    "a scope skipped": _skip_instead("world", ONE_RANK),
    "nothing at all": lambda raw: raw.update(rows=[], skipped=[]),
    "lacking in MPI": lambda raw: raw["skipped"].append(
        {"scope": "world", "by": "mpi", "collective": "broadcast", "why": "slow"}
    ),
    "a size left out": lambda raw: raw["skipped"].append(
        {"scope": "world", "by": "mpi", "collective": "broadcast", "nbytes": 1024, "why": TOO_SMALL}
    ),
}


@pytest.mark.parametrize("made", [single_node, two_nodes])
@pytest.mark.parametrize("alteration", ALTERATIONS)
def test_every_alteration_breaks_a_claim(alteration: str, made: Callable[[], tuple[Case, Json]]) -> None:
    case, raw = made()
    ALTERATIONS[alteration](raw)
    assert [*claims(case, raw, NODE if made is single_node else CLUSTER)]


def test_nodes_are_those_of_the_machine() -> None:
    case, raw = two_nodes()
    assert [*claims(case, raw, NODE)]
    for each in raw["rows"]:
        each["ranks"] = {"node": 4, "between": 2}.get(each["scope"], each["ranks"])
    assert [*claims(case, raw, CLUSTER)]  # 4 x 2 ranks of 6

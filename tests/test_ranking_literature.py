"""Published figures: those of docs/PAPERS.md, re-computed by the constant, below lists of the same data only."""

import re

import pytest
from launch import ROOT
from ranking_files import listed
from small_run import GOLDEN

from hpcai.ranking.lists import ranked
from hpcai.ranking.literature import beside, literature
from hpcai.ranking.submission import VERIFIED, Line, ListKey, Submission
from hpcai.ranking.text import text_of
from hpcai.workloads.ensemble.literature import LIST, PUBLISHED
from hpcai.workloads.language.literature import PUBLISHED as LANGUAGE_MODELS
from hpcai.workloads.nas.literature import PUBLISHED as SEARCHES

PAPERS = (ROOT / "docs" / "PAPERS.md").read_text("utf-8")
ROW = re.compile(r"^\| ([\w ]+) \| ([\d.]+) \| ([\d.]+) \| (0\.\d+) \| ([\d.]+) \| [\d.]+ \|$", re.MULTILINE)
RANKING = [row for row in PUBLISHED if row.source == LIST]


def test_the_ranking_is_that_of_the_document() -> None:
    stated = {who: tuple(map(float, cells)) for who, *cells in ROW.findall(PAPERS)}
    assert len(stated) == len(RANKING) == 9
    for row in RANKING:
        assert row.valid_flops and row.minutes and row.quality and row.recomputed
        figures = (row.valid_flops / 1e15, row.minutes, row.quality, round(row.recomputed / 1e15, 2))
        assert figures == pytest.approx(stated[row.site], rel=1e-12), row.site


def test_other_figures_are_those_of_the_document() -> None:
    images = [f"{row.flops / 1e12:g}" for row in PUBLISHED if row.flops]
    assert sorted(images) == ["345", "414"]
    assert "64 V100: 345 TFLOPS; 414 with compressed gradients" in PAPERS
    assert [row.ops for row in SEARCHES] == [194_527.5e12, 53_704.5e12, 56.1e12]
    for words in ("194,527.5 TOPS (Peng Cheng Cloud Brain II)", "53,704.5 (a new Sunway)", "56.1 TOPS, 32 T4"):
        assert words in PAPERS


def test_they_are_recomputed_only_from_time_and_quality() -> None:
    assert [row.recomputed for row in (*PUBLISHED, *SEARCHES) if row not in RANKING] == [None] * 5


def test_they_are_below_lists_of_the_same_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert listed(GOLDEN / "result.json") == 0
    assert "literature" not in capsys.readouterr().out
    key = ListKey(VERIFIED, "ensemble", "imagenet", "VALID", "system", "V2", "fp32")
    lists = ranked([Submission("a", "f", (Line(key, 1.0, site="Somebody", verdict="REACHED", source="a"),))])
    [found] = beside(lists)
    assert found.key.name == "literature/ensemble/imagenet" and len(found.lines) == 11
    said = text_of([*lists, found], [])
    assert said.index("List ensemble/imagenet/VALID/system/V2/fp32") < said.index("List literature/ensemble/imagenet")
    assert re.search(r"31\.41 +31\.43", said) and "Tencent: its paper gives a top-1 of 0.758" in said


def test_language_models_are_those_of_the_rules_and_below_lists_of_enwik8() -> None:
    rules = (ROOT / "docs" / "RULES.md").read_text("utf-8")
    for row in LANGUAGE_MODELS:
        assert f"{row.quality:g}" in rules and row.site in rules and row.source in rules
    key = ListKey(VERIFIED, "language", "enwik8", "VALID", "free", "V2", "bf16")
    [found] = beside(ranked([Submission("a", "f", (Line(key, 1.0, site="Somebody", verdict="REACHED", source="a"),))]))
    said = text_of([found], [])
    assert found.key.name == "literature/language/enwik8" and re.search(r"Al-Rfou et al\. +1\.1100 +2019", said)


def test_all_of_them_are_printed_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert listed(GOLDEN / "result.json", "--list", "literature") == 0
    said = capsys.readouterr().out
    assert said.count("literature: published figures, not verified") == len([*literature()]) == 3
    assert "China Science Daily" in said and "List ensemble" not in said

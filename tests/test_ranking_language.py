"""Lists of language models: verified or printed alone, with what their quality is; other bytes are in other lists."""

import csv
from pathlib import Path

import pytest
from msgspec import structs
from ranking_files import listed
from small_run import GOLDEN

from hpcai.data.text.text_files import text_name
from hpcai.ranking.lines import lines_of
from hpcai.ranking.submission import ListKey
from hpcai.record.entry import Row
from hpcai.record.loading import load

STORED = GOLDEN / "language"


@pytest.mark.parametrize("before", ["", "from-report/"])
def test_language_models_have_lists_of_their_own(
    before: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "report.txt").write_text((STORED / "report.txt").read_text("utf-8"), "utf-8")
    path, table = tmp_path / "report.txt" if before else STORED / "result.json", tmp_path / "lists.csv"
    assert listed(GOLDEN / "result.json", path, "--list", "language", "--csv", table) == 0
    said = capsys.readouterr().out
    names = [f"{before}language/generated-text-32/UNOFFICIAL/free/{size}/fp32/target-8^5" for size in ("V2", "V3")]
    assert [line[5:] for line in said.splitlines() if line.startswith("List ")] == names
    assert said.count("ordered by Valid FLOPS; Quality: bpb, smaller is better; ") == 2
    lines = [*csv.DictReader(table.read_text().splitlines())]
    for line, test in zip(lines, reversed(load(STORED / "result.json").tests), strict=True):
        assert line["Network"] == "decoder2x64"
        assert float(line["Tokens/s"]) == pytest.approx(test.scores.tokens_per_second, abs=1e-6)
        assert float(line["Valid PFLOPS"]) == pytest.approx(test.scores.valid_flops / 1e15, rel=1e-5)
        assert float(line["Quality"]) == pytest.approx(test.scores.quality, abs=1e-6)


def test_texts_of_other_bytes_are_in_other_lists() -> None:
    keys = keys_of("1" * 64) | keys_of("2" * 64)
    assert {key.subject for key in keys} == {"text-32-11111111", "text-32-22222222"} and len(keys) == 4


def keys_of(fingerprint: str) -> set[ListKey]:
    """The lists of the stored result, were it of text with this fingerprint."""
    stored = load(STORED / "result.json")
    tests = tuple(_named(test, text_name(32, fingerprint)) for test in stored.tests)
    return {line.key for line in lines_of(structs.replace(stored, tests=tests), "somewhere")}


def _named(test: Row, name: str) -> Row:
    dataset = structs.replace(test.raw.dataset, name=name)
    return structs.replace(test, raw=structs.replace(test.raw, dataset=dataset))

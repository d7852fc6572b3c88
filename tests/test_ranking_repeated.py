"""One run is ranked once, also under another header."""

from pathlib import Path

import pytest
from msgspec import structs
from ranking_files import HEADER, listed, of_site, written

from hpcai.inputfile import parse
from hpcai.record.problem import input_of
from hpcai.results.summary import sealed


def test_the_same_measurements_under_another_header_count_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever alters the header can seal the result again; its times are those of the first run."""
    stored = of_site(HEADER)
    problem = parse(stored.input.text.replace(HEADER, "Another site", 1), [], name=stored.input.name)
    first = written(tmp_path / "a", stored)
    second = written(tmp_path / "b", sealed(structs.replace(stored, input=input_of(problem)), 2))
    assert listed(first, second, "--no-cache") == 0
    said = capsys.readouterr().out
    assert f"{second / 'result.json'}: the same run as {first / 'result.json'}, counts once" in said
    assert listed(first, written(tmp_path / "c", of_site("Another site")), "--no-cache") == 0
    assert "counts once" not in capsys.readouterr().out

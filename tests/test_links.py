"""Symbolic links in a result folder: none is followed by a verification, a list, or a run that writes."""

import shutil
from pathlib import Path

import pytest
from ranking_files import of_site, written
from small_run import GOLDEN

from hpcai.errors import DataError, HpcaiError, InputError
from hpcai.ranking import contents
from hpcai.record.loading import load
from hpcai.report import checksums, files
from hpcai.search import journal
from hpcai.verification import verify


def outside(folder: Path, name: str) -> None:
    """Move a file of a folder, or a folder in it, to another place, and leave a link to it."""
    place = folder.parent / "elsewhere" / name
    place.parent.mkdir(parents=True)
    shutil.move(folder / name, place)
    (folder / name).symlink_to(place)


@pytest.mark.parametrize("name", ["result.json", "report.txt", "series.h5", "mllog", checksums.NAME])
def test_a_link_is_named_and_not_followed(name: str, tmp_path: Path) -> None:
    folder = written(tmp_path / "mine", of_site("A site"))
    (folder / "mllog").mkdir()
    (folder / "mllog/system.json").write_text("{}")
    files.write(folder, result := load(folder / "result.json"))
    assert verify.differences(folder / "result.json") == []
    outside(folder, name)
    named = "mllog/system.json" if name == "mllog" else name
    expected = f"{named} is a symbolic link: allowed are files in the folder of the result"
    assert verify.differences(folder / "result.json") == [expected]
    with pytest.raises(InputError, match=expected):
        contents.digests(folder / "result.json", result)


def test_a_folder_may_be_reached_by_a_link(tmp_path: Path) -> None:
    folder = written(tmp_path / "mine", of_site("A site"))
    (tmp_path / "latest").symlink_to(folder)
    assert verify.differences(tmp_path / "latest/result.json") == []


def test_a_run_writes_through_no_link(tmp_path: Path) -> None:
    folder, other = tmp_path / "folder", tmp_path / "other"
    folder.mkdir()
    other.write_text("kept")
    for name in ("result.json", "history.jsonl", checksums.NEXT):
        (folder / name).symlink_to(other)
    files.write(folder, load(GOLDEN / "result.json"))
    assert not (folder / "result.json").is_symlink()
    assert "history.jsonl" not in checksums.read(folder / checksums.NAME)
    with pytest.raises(DataError, match="Too many levels of symbolic links"):
        journal.append_line(folder / "history.jsonl", 1, b"{}")
    (folder / ".report.txt").symlink_to(other)
    with pytest.raises(HpcaiError, match="cannot write .*report.txt"):
        files.write(folder, load(GOLDEN / "result.json"))
    assert other.read_text() == "kept"

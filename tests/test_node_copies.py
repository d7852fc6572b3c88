"""Copies of data files on one node: complete or absent, and used by one job only."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from job_folder import listing
from launch import ROOT

from hpcai.data import node_copies
from hpcai.errors import DataError, HpcaiError

FINGERPRINT = "0123456789abcdef" * 4
PLACE = f"hpcai-{os.getuid()}"


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The node's folder for copies."""
    place = tmp_path / "local"
    place.mkdir()
    monkeypatch.setenv("HPCAI_LOCAL", str(place))
    return place / PLACE


@pytest.fixture
def file(tmp_path: Path) -> node_copies.File:
    """A file of a dataset."""
    source = tmp_path / "data" / "part" / "shard"
    source.parent.mkdir(parents=True)
    source.write_bytes(bytes(range(256)) * 100)
    (found,) = node_copies.files_below(tmp_path / "data", [source])
    return found


def test_a_copy_is_complete_until_a_byte_is_changed(local: Path, file: node_copies.File) -> None:
    copy = node_copies.claim(FINGERPRINT, keep=True)
    assert not node_copies.is_whole(copy.place, file)
    node_copies.copy_file(copy.place, file)
    assert node_copies.is_whole(copy.place, file)
    target = copy.place / "files" / "part" / "shard"
    assert target.read_bytes() == file.source.read_bytes()
    for spoiled in (file.source.read_bytes()[:-1], file.source.read_bytes()[:-1] + b"?", b""):
        target.write_bytes(spoiled)
        assert not node_copies.is_whole(copy.place, file)
    copy.close()
    assert target.exists()


def test_a_changed_or_missing_source_is_named(local: Path, file: node_copies.File) -> None:
    copy = node_copies.claim(FINGERPRINT, keep=False)
    with pytest.raises(DataError, match="is not"):
        node_copies.copy_file(copy.place, node_copies.File(file.source, file.name, file.nbytes + 1))
    with pytest.raises(DataError, match=r"no-shard: No such file"):
        node_copies.copy_file(copy.place, node_copies.File(file.source.with_name("no-shard"), file.name, file.nbytes))
    assert [path for path in (copy.place / "files").rglob("*") if path.is_file()] == []
    copy.close()
    assert listing(local) == ["lock"]


def test_a_copy_written_wrong_is_refused(
    local: Path, file: node_copies.File, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = node_copies.claim(FINGERPRINT, keep=False)
    monkeypatch.setattr(node_copies, "_copied", written_wrong(node_copies._copied))
    with pytest.raises(DataError, match=f"the copy {copy.place}.* is not {file.source}"):
        node_copies.copy_file(copy.place, file)
    assert [path for path in (copy.place / "files").rglob("*") if path.is_file()] == []
    copy.close()


def written_wrong(genuine: Callable[[Path, Path], str]) -> Callable[[Path, Path], str]:
    """A file system that loses a bit."""

    def copied(source: Path, part: Path) -> str:
        digest = genuine(source, part)
        part.write_bytes(part.read_bytes()[:-1] + b"?")
        return digest

    return copied


def test_a_link_is_read_from_the_source_and_replaced_by_a_copy(local: Path, file: node_copies.File) -> None:
    copy = node_copies.claim(FINGERPRINT, keep=True)
    target = copy.place / "files" / file.name
    for act, linked in ((node_copies.link_file, True), (node_copies.copy_file, False), (node_copies.link_file, False)):
        act(copy.place, file)
        assert target.is_symlink() == linked
        assert target.read_bytes() == file.source.read_bytes()
        assert node_copies.is_whole(copy.place, file) != linked
    node_copies.remove(copy.place)
    assert file.source.exists()


def test_a_folder_belongs_to_one_job_until_it_dies(local: Path) -> None:
    program = f"import time; from hpcai.data import node_copies; copy = node_copies.claim({FINGERPRINT!r}, False)"
    program += "; print(copy.place, flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout
        place = Path(other.stdout.readline().strip())
        own = node_copies.claim(FINGERPRINT, keep=False)
        assert place.is_dir() and own.place.is_dir() and own.place != place
        other.kill()
        other.wait()
        assert place.is_dir()
        node_copies.claim(FINGERPRINT, keep=True).close()
        assert own.place.is_dir() and not place.exists()
    own.close()
    assert not own.place.exists()


def test_a_lack_of_space_is_reported_in_numbers(local: Path) -> None:
    copy = node_copies.claim(FINGERPRINT, keep=False)
    node_copies.check_space(copy.place, 1)
    with pytest.raises(HpcaiError, match=rf"needs {1 << 62} bytes in {local}, \d+ are free"):
        node_copies.check_space(copy.place, 1 << 62)
    copy.close()


def test_a_folder_that_cannot_be_used_is_named(local: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local.symlink_to(tmp_path)
    with pytest.raises(HpcaiError, match="is not a folder of this user"):
        node_copies.claim(FINGERPRINT, keep=False)
    monkeypatch.setenv("HPCAI_LOCAL", str(tmp_path / "nowhere"))
    with pytest.raises(HpcaiError, match=r"nowhere/hpcai-\d+: No such file"):
        node_copies.claim(FINGERPRINT, keep=False)
    monkeypatch.delenv("HPCAI_LOCAL")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert node_copies.user_folder() == tmp_path / PLACE

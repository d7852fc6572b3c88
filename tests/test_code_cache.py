"""Folders of machine code on a node: only this user can have written what is loaded."""

import os
import tempfile
from pathlib import Path

import pytest

from hpcai.kernels import code_cache


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(code_cache, "refused", {})
    return tmp_path / f"hpcai-code-{os.geteuid()}"


def test_the_folder_is_the_users_and_the_same_again(temporary: Path) -> None:
    assert code_cache.local_folder("some") == temporary / "some" == code_cache.local_folder("some")
    assert not (temporary / "some").stat().st_mode & code_cache.WRITABLE_BY_OTHERS


@pytest.mark.parametrize("below", ["", "some"])
def test_a_folder_that_others_may_write_is_not_used(temporary: Path, below: str) -> None:
    (temporary / "some").mkdir(parents=True)
    (temporary / below).chmod(0o777)
    found = code_cache.local_folder("some")
    assert temporary not in found.parents and found.is_dir() and found.stat().st_mode & 0o777 == 0o700
    assert code_cache.refused == {temporary / below: "may be written by others"}


def test_a_link_in_its_place_is_not_followed(temporary: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "some").mkdir(parents=True)
    temporary.symlink_to(tmp_path / "elsewhere")
    assert code_cache.local_folder("some").parent == tmp_path

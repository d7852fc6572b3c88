"""SHA256SUMS of a result folder: missing, altered and unlisted files are named, and nothing else is read."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from launch import BENCH, run_job
from small_run import GOLDEN

from hpcai.errors import DataError
from hpcai.record.loading import load
from hpcai.report import checksums, files
from hpcai.verification import folder as folders
from hpcai.verification import verify

SUMS = checksums.NAME
DIGEST = "0" * 64


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of the stored result, and one that some other part of the program has written."""
    (tmp_path / "mllog").mkdir()
    (tmp_path / "mllog" / "system.json").write_text("{}")
    files.write(tmp_path, load(GOLDEN / "result.json"))
    return tmp_path


def differences(folder: Path) -> list[str]:
    return verify.differences(folder / "result.json")


@pytest.mark.skipif(not shutil.which("sha256sum"), reason="NO sha256sum: FORMAT NOT TRIED")
def test_the_usual_command_reads_it(folder: Path) -> None:
    assert differences(folder) == [] and folders.notes(folder / "result.json") == []
    done = subprocess.run(["sha256sum", "-c", "--strict", SUMS], cwd=folder, capture_output=True, text=True, check=True)
    names = ["mllog/system.json", "report.txt", "result.csv", "result.json", "series.h5"]
    assert done.stdout.splitlines() == [f"{name}: OK" for name in names]


def test_a_missing_file_is_named(folder: Path) -> None:
    for name in ("report.txt", "mllog/system.json"):
        (folder / name).unlink()
    names = ["mllog/system.json", "report.txt"]
    assert differences(folder) == [f"{name} is missing: {SUMS} lists it" for name in names]


def test_an_altered_file_is_named(folder: Path) -> None:
    (folder / "mllog" / "system.json").write_text("{} ")
    assert differences(folder) == [f"mllog/system.json is altered: {SUMS} lists another SHA-256"]


def test_a_file_that_is_not_listed_is_named(folder: Path) -> None:
    (folder / "notes").mkdir()
    (folder / "notes" / "of\nmine\x1b[1m.txt").write_text("mine")
    (folder / ".hidden").write_text("temporary")
    assert differences(folder) == []
    assert folders.notes(folder / "result.json") == [f"not in {SUMS}: notes/of mine?[1m.txt"]


def test_a_file_of_the_program_must_be_listed(folder: Path) -> None:
    lines = (folder / SUMS).read_text().splitlines(keepends=True)
    (folder / SUMS).write_text("".join(line for line in lines if "report.txt" not in line))
    assert differences(folder) == [f"report.txt is not in {SUMS}"]
    (folder / SUMS).write_text("")
    names = ["result.json", "report.txt", "result.csv", "series.h5"]
    assert differences(folder) == [f"{name} is not in {SUMS}" for name in names]


@pytest.mark.parametrize(
    "line",
    [
        f"{DIGEST}  ../result.json",
        f"{DIGEST}  /etc/passwd",
        f"{DIGEST}  a//b",
        f"{DIGEST}  .hidden",
        f"{DIGEST}  a/../b",
        f"{DIGEST}  a\x1bb",
        f"{DIGEST} report.txt",
        f"{DIGEST[1:]}  report.txt",
        f"{DIGEST}  report.txt\n{DIGEST}  report.txt",
        "nonsense",
        "\xff",
    ],
)
def test_lines_of_another_form_are_refused(folder: Path, line: str) -> None:
    (folder / SUMS).write_text(line, "latin-1")
    (found,) = differences(folder)
    assert found.startswith(f"{SUMS}, line ") or found.startswith(f"{SUMS} cannot be read: ")
    with pytest.raises(DataError):
        checksums.read(folder / SUMS)


def test_what_is_no_file_is_not_opened(folder: Path) -> None:
    (folder / "mllog" / "system.json").unlink()
    os.mkfifo(folder / "mllog" / "system.json")
    assert differences(folder) == [f"mllog/system.json is missing: {SUMS} lists it"]
    (folder / SUMS).unlink()
    (folder / SUMS).mkdir()
    assert differences(folder) == [f"{SUMS} cannot be read: Is a directory"]


def test_many_differences_are_counted(folder: Path) -> None:
    with (folder / SUMS).open("a") as sums:
        sums.write("".join(f"{DIGEST}  file-{number}\n" for number in range(1000)))
    assert len(found := differences(folder)) == folders.MOST_SHOWN + 1
    assert found[-1] == f"{1000 - folders.MOST_SHOWN} more files differ from {SUMS}"


def test_a_lone_result_is_verified_with_a_note(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    alone = tmp_path_factory.mktemp("alone") / "result.json"
    shutil.copy(folder / "result.json", alone)
    note = f"no {SUMS} of this result lies beside it: files that are missing cannot be named"
    assert verify.differences(alone) == [] and note in verify.notes(alone)
    copied = folder / "copy.json"
    shutil.copy(alone, copied)
    assert verify.differences(copied) == [] and note in verify.notes(copied)


def test_large_files_need_only_be_there_if_few_bytes_are_to_be_read(folder: Path) -> None:
    (folder / "mllog" / "system.json").write_text("[]")
    (folder / "series.h5").write_bytes(b"")
    listed = list(folders.differences(folder / "result.json", (), most_bytes=2))
    assert [line.split()[0] for line in listed] == ["mllog/system.json", "series.h5"]
    assert [*folders.differences(folder / "result.json", (), most_bytes=1)] == [
        f"series.h5 is altered: {SUMS} lists another SHA-256"
    ]


def test_unchanged_files_are_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    genuine = checksums.sha256_of
    monkeypatch.setattr(checksums, "sha256_of", lambda path: read.append(path.name) or genuine(path))
    known = checksums.Digests(folder)
    for _ in range(3):
        files.write(folder, load(GOLDEN / "result.json"), known)
    assert read == ["system.json"]
    (folder / "mllog" / "system.json").write_text("{} ")
    files.write(folder, load(GOLDEN / "result.json"), known)
    assert read == ["system.json"] * 2 and differences(folder) == []


def test_a_reader_that_closes_the_pipe_causes_no_error(folder: Path) -> None:
    command = f"{BENCH} --verify {folder} {folder} {folder}"
    loop = f"set -o pipefail; python={sys.executable}; $python {command} | :"
    done = subprocess.run(["bash", "-c", loop], cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert run_job([BENCH, "--verify", folder], None, folder).returncode == 0

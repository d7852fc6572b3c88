"""`bench.py --verify FILE...`: one verdict per file, and exit code 1 if one of them is not sound."""

from pathlib import Path

from launch import BENCH, ROOT, Finished, run_job
from small_run import GOLDEN, golden

from hpcai.record.loading import load
from hpcai.report import files

RAW = golden()["tests"][0]["raw"]
CORRECT, SAMPLES = RAW["ensemble"]["correct"], RAW["dataset"]["validation_samples"]
VERIFIED = (
    "every number follows from the raw measurements, with report.txt and result.csv and series.h5; "
    "not evaluated again without predictions-1.h5 and predictions-2.h5; UNOFFICIAL, 2 of 2 tests PASSED\n"
)


def verify(folder: Path, *paths: str) -> Finished:
    """The program's output in that folder."""
    return run_job([BENCH, "--verify", *paths], None, folder)


def test_verify_prints_the_verdict(tmp_path: Path) -> None:
    files.write(tmp_path, load(GOLDEN / "result.json"))
    for path in (tmp_path, tmp_path / "result.json"):
        finished = verify(ROOT, str(path))
        assert (finished.returncode, finished.stderr) == (0, "")
        *notes, verdict = finished.stdout.splitlines(keepends=True)
        assert verdict == f"{path}: {VERIFIED}"
        assert all(note.startswith(f"{path}: source ") for note in notes)  # the stored result is of an earlier source


def test_verify_takes_several_results_and_fails_if_one_does(tmp_path: Path) -> None:
    for name in ("sound", "altered", "alone"):
        (tmp_path / name).mkdir()
        files.write(tmp_path / name, load(GOLDEN / "result.json"))
    altered = tmp_path / "altered" / "result.json"
    altered.write_text(altered.read_text().replace(f'"correct": {CORRECT}', f'"correct": {CORRECT + 100}'))
    for name in ("report.txt", "result.csv", "series.h5", "SHA256SUMS"):
        (tmp_path / "alone" / name).unlink()
    finished = verify(tmp_path, "sound", "altered", "alone")
    assert finished.returncode == 1
    assert f"sound: {VERIFIED}" in finished.stdout and "altered: NOT VERIFIED\n" in finished.stdout
    assert "alone: every number follows from the raw measurements, no other files to compare;" in finished.stdout
    assert "alone: no SHA256SUMS of this result lies beside it" in finished.stdout


def test_verify_names_the_altered_value(tmp_path: Path) -> None:
    files.write(tmp_path, load(GOLDEN / "result.json"))
    path = tmp_path / "result.json"
    path.write_text(path.read_text().replace(f'"correct": {CORRECT}', f'"correct": {CORRECT + 100}'))
    finished = verify(tmp_path, "result.json")
    assert finished.returncode == 1
    stored, follows = (correct / SAMPLES for correct in (CORRECT, CORRECT + 100))
    difference = f"tests[0].scores.quality: {stored} is stored, {follows} follows from the raw measurements\n"
    assert difference in finished.stdout
    assert finished.stdout.endswith("result.json: NOT VERIFIED\n")

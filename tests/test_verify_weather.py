"""Verification of weather: altered numbers are detected, and so is a file of detections that contradicts the result."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from alterations import found_in, leaves, other_values, put, verified
from small_run import WEATHER, cases_of, golden_weather, rebuilt, renewed, weather_run
from written_files import write_unlisted

from hpcai.detections import detection_tables
from hpcai.detections.coco_evaluation import average_precision, matched
from hpcai.record.loading import load
from hpcai.record.training import TrainingRaw
from hpcai.record.training_scores import TrainingScores
from hpcai.verification import verify
from hpcai.workloads.weather import files as detections
from hpcai.workloads.weather.record import WeatherRaw, WeatherScores

Json = dict[str, Any]
FILE = detection_tables.name(1)
COMMON = {*TrainingRaw.__struct_fields__, *TrainingScores.__struct_fields__}
OWN = {*WeatherRaw.__struct_fields__, *WeatherScores.__struct_fields__} - COMMON


def altered(
    folder: Path, change: Callable[[Json, detection_tables.DetectionTables], None], sealed: bool = True
) -> list[str]:
    """Findings in the stored result with other detections; derived values, perhaps the digest, are computed again."""
    result = golden_weather()
    found, about = detection_tables.read(WEATHER / FILE, 48)
    together = result["tests"][0]["raw"]["ensemble"]
    change(together, found)
    if sealed:
        together["sha256"] = detection_tables.digest(found)
    detection_tables.write(folder / FILE, found, about)
    return verified(rebuilt(result), folder)


def test_the_stored_result_with_all_its_files_is_verified() -> None:
    assert verify.differences(WEATHER / "result.json") == []
    said = verify.sound_message(WEATHER / "result.json")
    assert "and detections-1.h5 and detections-2.h5; UNOFFICIAL" in said


def test_missing_detections_are_reported(tmp_path: Path) -> None:
    write_unlisted(tmp_path, load(WEATHER / "result.json"))
    shutil.copy(WEATHER / FILE, tmp_path)
    assert verify.differences(tmp_path / "result.json") == []
    missing = "series.h5 and detections-1.h5; not evaluated again without detections-2.h5; UNOFFICIAL"
    assert missing in verify.sound_message(tmp_path / "result.json")


@pytest.mark.slow
def test_real_results_with_and_without_a_diverged_model_are_verified() -> None:
    run = weather_run()
    assert [test["verdict"] for test in run.result["tests"]] == ["FAILED", "PASSED"]
    assert verify.differences(run.folder / "result.json") == []


@pytest.mark.slow
def test_every_alteration_with_a_new_digest_is_detected(tmp_path: Path) -> None:
    """Of fields that images lack: all others are altered in a result of images."""
    own = [each for each in leaves(golden_weather()) if {*each[0]} & OWN]
    assert len(own) > 60
    for path, value in own:
        for other in other_values(value):
            assert verified(renewed(put(golden_weather(), path, other)), tmp_path), f"{path}: {value} -> {other}"


def test_detections_are_part_of_the_result(tmp_path: Path) -> None:
    assert altered(tmp_path, lambda together, found: None) == []
    (found,) = altered(tmp_path, lambda together, found: found.detections.__setitem__((0, 0, 4), 0.99), sealed=False)
    assert found == f"{FILE}: not the detections of the result file"


def _better(together: Json, found: detection_tables.DetectionTables) -> None:
    """A precision that nothing has found, with all derived values adapted."""
    together["precision"] = [value + 0.001 for value in together["precision"]]


def _looser(together: Json, found: detection_tables.DetectionTables) -> None:
    together["loose_precision"][0] += 1e-6


def _fewer(together: Json, found: detection_tables.DetectionTables) -> None:
    together["true_boxes"][1] -= 1


def _no_box(together: Json, found: detection_tables.DetectionTables) -> None:
    """Boxes without detections, removed from the true ones."""
    found.boxes[5:20] = -1
    own = detection_tables.used(found.detections)
    for name, overlap in (("precision", 0.5), ("loose_precision", 0.1)):
        of = matched(range(48), own, found.boxes, overlap, 2)
        together[name] = average_precision(of).tolist()
        together["true_boxes"] = of.truths.tolist()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_better, "a precision of ["),
        (_looser, "a precision of ["),
        (_fewer, " true boxes, not ["),
        (_no_box, "true boxes of 15 frames that are not those of the formula"),
    ],
)
def test_numbers_that_contradict_the_detections_are_named(
    change: Callable[..., None], words: str, tmp_path: Path
) -> None:
    found = altered(tmp_path, change)
    assert found and all(line.startswith(f"{FILE}: ") and words in line for line in found)


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ((3, 0, 4), 1.5, "frame 3: scores that do not fall from 1 to 0"),
        ((3, 0, 4), np.nan, "frame 3: scores that do not fall from 1 to 0"),
        ((3, 0, 4), 0.0, "frame 3: scores that do not fall from 1 to 0"),
        ((3, 0, 1), np.inf, "frame 3: scores that do not fall from 1 to 0"),
        ((3, 0, 0), -1.0, "frame 3: a box outside of the field"),
        ((3, 0, 2), 49.0, "frame 3: a box outside of the field"),
        ((3, 0, 5), 2.0, "frame 3: a class that there is not"),
        ((3, 0, 5), 0.5, "frame 3: a class that there is not"),
        ((3, 0, 5), np.inf, "frame 3: a class that there is not"),
        ((3, 0, 5), -1.0, "frame 3: rows that are used are not the first ones"),
        ((3, 99, 0), 7.0, "frame 3: rows that are used are not the first ones"),
    ],
)
def test_impossible_rows_of_detections_are_detected(
    place: tuple[int, ...], value: float, words: str, tmp_path: Path
) -> None:
    def change(together: Json, found: detection_tables.DetectionTables) -> None:
        found.detections[3, 99] = detection_tables.empty(1).detections[0, 99]
        found.detections[place] = value

    assert altered(tmp_path, change) == [f"{FILE}: {words}"]


def _link(file: h5py.File, name: str = "boxes") -> None:
    del file[name]
    file[name] = h5py.ExternalLink("other.h5", name)


def _outside(file: h5py.File) -> None:
    del file["boxes"]
    file.create_dataset("boxes", (48, 15, 5), np.int32, external=[("/dev/zero", 0, 48 * 300)])


def _virtual(file: h5py.File) -> None:
    del file["boxes"]
    layout = h5py.VirtualLayout((48, 15, 5), np.int32)
    layout[:] = h5py.VirtualSource("other.h5", "boxes", (48, 15, 5))
    file.create_virtual_dataset("boxes", layout)


def _again(file: h5py.File, name: str, shape: tuple[int, ...], kind: Any, **how: Any) -> None:
    del file[name]
    file.create_dataset(name, shape, kind, **how)


DAMAGE: dict[str, Callable[[h5py.File], Any]] = {
    "missing": lambda file: file.__delitem__("boxes"),
    "one more": lambda file: file.__setitem__("more", 1),
    "group": lambda file: (file.__delitem__("boxes"), file.create_group("boxes")),
    "soft link": lambda file: (file.move("boxes", "b"), file.__setitem__("boxes", h5py.SoftLink("/b"))),
    "link": _link,
    "outside": _outside,
    "virtual": _virtual,
    "47 frames": lambda file: _again(file, "detections", (47, 100, 6), np.float32),
    "vast": lambda file: _again(file, "detections", (2**40, 100, 6), np.float32, chunks=(1, 100, 6)),
    "vast chunk": lambda file: _again(
        file, "detections", (48, 100, 6), np.float32, chunks=(2**20, 100, 6), maxshape=(None, 100, 6)
    ),
    "float64": lambda file: _again(file, "detections", (48, 100, 6), np.float64),
    "text": lambda file: _again(file, "detections", (48, 100, 6), h5py.string_dtype()),
    "flat": lambda file: _again(file, "detections", (48 * 600,), np.float32),
    "empty": lambda file: (file.__delitem__("boxes"), file.__setitem__("boxes", h5py.Empty("i4"))),
    "moments": lambda file: file["moments"].__setitem__((0, 0), 1979),
    "classes": lambda file: file.attrs.__setitem__("classes", [0, 2]),
    "no classes": lambda file: file.attrs.__delitem__("classes"),
    "classes of text": lambda file: file.attrs.__setitem__("classes", "1, 2"),
    "no moments": lambda file: file.__delitem__("moments"),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_is_named(damage: Callable[[h5py.File], Any], tmp_path: Path) -> None:
    write_unlisted(tmp_path, load(WEATHER / "result.json"))
    shutil.copy(WEATHER / FILE, tmp_path)
    shutil.copy(WEATHER / FILE, tmp_path / "other.h5")
    with h5py.File(tmp_path / FILE, "r+") as file:
        damage(file)
    (found,) = verify.differences(tmp_path / "result.json")
    assert found.startswith(f"{FILE}") and len(found) < 300


def test_an_object_that_is_not_a_file_is_named(tmp_path: Path) -> None:
    write_unlisted(tmp_path, load(WEATHER / "result.json"))
    path = tmp_path / FILE
    path.write_bytes(b"no HDF5")
    assert "cannot be read" in found_in(tmp_path / "result.json")[0]
    path.write_bytes((WEATHER / FILE).read_bytes()[:-5000])
    assert "cannot be read" in found_in(tmp_path / "result.json")[0]
    path.unlink()
    for make in (path.mkdir, lambda: os.mkfifo(path)):
        make()
        assert found_in(tmp_path / "result.json") == [f"{FILE} is no file"]
        path.rmdir() if path.is_dir() else path.unlink()
    assert verify.differences(tmp_path / "result.json") == []


def test_detections_of_another_test_are_detected(tmp_path: Path) -> None:
    write_unlisted(tmp_path, load(WEATHER / "result.json"))
    shutil.copy(WEATHER / detection_tables.name(2), tmp_path / FILE)
    assert verify.differences(tmp_path / "result.json") == [f"{FILE}: not the detections of the result file"]


def test_damage_of_any_byte_is_named_or_harmless(tmp_path: Path) -> None:
    """Never a crash, although the library reports many kinds of errors."""
    case, test = cases_of(golden_weather())[0], load(WEATHER / "result.json").tests[0]
    whole, random = (WEATHER / FILE).read_bytes(), np.random.default_rng(3)
    for place in random.integers(0, len(whole), 150).tolist():
        (tmp_path / FILE).write_bytes(whole[:place] + random.bytes(4) + whole[place + 4 :])
        assert all(line.startswith(FILE) for line in detections.differences(tmp_path, case, test))

"""The workload [weather] as a whole: real runs of small sets, generated and in files, and their results."""

from pathlib import Path
from typing import Any

import h5py
import pytest
from finished_run import Run, assert_sound
from launch import mpirun, run_job

from hpcai.data import generate
from hpcai.data.weather.layout import EASIEST
from hpcai.detections import detection_tables
from hpcai.formulas import score
from hpcai.verification import verify

Json = dict[str, Any]

needs_mpirun = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: WEATHER NOT TESTED")
INPUT = """\
Extreme weather
in a small part of a year
[weather]
{dataset}  DATASET
{rows}     RESOLUTION
{classes}  CLASSES
{samples}  SAMPLES
1          GROUPS
1          DEGREE
8          BATCH
1          EPOCHS
"""
MADE = INPUT.format(dataset="generated", rows=48, classes=2, samples=24)
FILES = INPUT.format(dataset="extremeweather:years", rows=0, classes=0, samples=0)
FRAMES, YEARS = 12, 3
FRAME = 16 * 48 * 64  # numbers


def published(folder: Path) -> Path:
    """A folder with three generated years of a few frames, in the published layout; each begins with storms."""
    sizes = {"years": YEARS, "frames": FRAMES, "height": 48, "width": 64, "chunk-frames": 5}
    assert generate.main([str(folder), *(f"--{name}={value}" for name, value in sizes.items())]) == 0
    return folder


@pytest.fixture(scope="module")
def grids(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two detectors in parallel, then one by two ranks, each on both orders of the grid; a third rank is idle."""
    return Run(tmp_path_factory.mktemp("grids"), MADE, 3, "GROUPS=2,1", "DEGREE=1,2", "MAPPING=row,column")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Trained by two models on copies of published files, then on the same packed."""
    folder = tmp_path_factory.mktemp("files")
    published(folder / "years")
    packed = run_job(["-m", "hpcai.data.pack_weather", "years", "set"], None, folder)
    assert packed.returncode == 0, packed.stderr
    datasets = "DATASET=extremeweather:years,extremeweather:set"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HPCAI_LOCAL", str(folder))
        return Run(folder, FILES, 2, datasets, "GROUPS=2", "STAGE=local")


@pytest.mark.slow
@needs_mpirun
@pytest.mark.parametrize("made", ["files", pytest.param("grids", marks=pytest.mark.exhaustive)])
def test_results_follow_the_schema_are_verified_and_read_by_parsers(made: str, request: pytest.FixtureRequest) -> None:
    run: Run = request.getfixturevalue(made)
    assert_sound(run)


@pytest.mark.slow
@needs_mpirun
def test_rows_have_their_grid_and_mapping(grids: Run) -> None:
    assert [test["tv"] for test in grids.tests] == ["WR20S1V4", "WC20S1V4", "WR21S1V4", "WC21S1V4"]
    assert [(test["p"], test["q"], test["n"]) for test in grids.tests] == [(2, 1, 48)] * 2 + [(1, 2, 24)] * 2
    assert [rank["groups"] for rank in grids.result["ranks"]][2] == [None] * 4
    dataset = {name: grids.tests[0]["raw"]["dataset"][name] for name in ("name", "shape", "classes")}
    assert dataset == {"name": "generated-weather-2x48", "shape": [16, 48, 72], "classes": 2}


@pytest.mark.slow
@needs_mpirun
def test_the_report_has_the_precision(grids: Run) -> None:
    for test, block in zip(grids.tests, grids.job.stdout.split("\nT/V                N")[1:], strict=True):
        scores = test["scores"]
        names = [f"AP at an overlap of 0.5, {each} cyclone" for each in ("tropical", "extratropical")]
        values = dict(zip(names, scores["class_precision"], strict=True))
        values |= {"quality of the ensemble": scores["quality"], "mAP at an overlap of 0.1": scores["loose_precision"]}
        values["samples/s"] = test["n"] / test["seconds"]
        for name, value in values.items():
            assert f"\n{name:>48}= {value:16.7f}" in block, name
        assert f"\n{'quality(mAP)/target':>48}=" in block
        assert scores["target"] == 0.8


@pytest.mark.slow
@needs_mpirun
def test_the_same_seed_gives_the_same_detections(grids: Run) -> None:
    for one, other in (grids.tests[:2], grids.tests[2:]):
        assert one["scores"]["quality"] == other["scores"]["quality"]
        assert one["raw"]["ensemble"]["sha256"] == other["raw"]["ensemble"]["sha256"]
    assert len({test["raw"]["ensemble"]["sha256"] for test in grids.tests}) == 2


@pytest.mark.slow
@needs_mpirun
def test_the_ensemble_of_one_is_its_model(grids: Run) -> None:
    for test in grids.tests[2:]:
        scores, last = test["scores"], test["raw"]["curve"][-1]
        assert scores["quality"] == scores["member_mean"] == score.mean_precision(last["average_precision"])
        assert (scores["disagreement"], scores["out_of_bag"]) == (None, None)
    for test in grids.tests[:2]:
        assert test["raw"]["ensemble"]["bag_evaluated"] > 0 and test["scores"]["disagreement"] > 0


@pytest.mark.slow
@needs_mpirun
def test_the_detections_are_stored_with_the_result(grids: Run) -> None:
    names = [detection_tables.name(index) for index in range(1, 5)]
    assert sorted(path.name for path in grids.folder.glob("*.h5")) == [*names, "series.h5"]
    assert all(name in verify.sound_message(grids.folder / "result.json") for name in names)
    for name, test in zip(names, grids.tests, strict=True):
        found, about = detection_tables.read(grids.folder / name, 48)
        assert detection_tables.digest(found) == test["raw"]["ensemble"]["sha256"]
        assert any(map(len, detection_tables.used(found.detections)))
        assert about.classes == EASIEST and about.moments is not None


@pytest.mark.slow
@needs_mpirun
def test_copies_of_files_are_used_for_training_and_removed(files: Run) -> None:
    for test, folder in zip(files.tests, ("years", "set"), strict=True):
        assert test["tv"] == "WR20S1V4" and test["settings"]["DATASET"] == f"extremeweather:{folder}"
        shape = (test["raw"]["dataset"]["name"], test["raw"]["dataset"]["shape"], test["raw"]["dataset"]["classes"])
        assert shape == ("generated-weather-48x64", [16, 48, 64], 4)
        assert test["raw"]["staging"]["bytes"] > 2 * FRAME * FRAMES
    assert not [*files.folder.parents[1].glob("hpcai-*/*/files")]


@pytest.mark.slow
@needs_mpirun
def test_bytes_of_files_are_accounted(files: Run) -> None:
    """A model reads each block of published files at most once; packed frames, each time they are drawn."""
    published, packed = (test["raw"]["loading"] for test in files.tests)
    folder = files.folder.parents[1] / "years"
    stored = sum(h5py.File(path)["images"].id.get_storage_size() for path in sorted(folder.glob("*.h5"))[:-1])
    assert 0 < published["bytes_read"] <= 2 * stored and published["decompress_seconds"] > 0
    assert packed["bytes_read"] == 2 * FRAME * files.tests[1]["n"] and packed["decompress_seconds"] == 0
    for test in files.tests:
        rate = test["raw"]["loading"]["bytes_read"] / test["raw"]["phases"]["training"]
        assert f"\n{'fields read in training, GB/s':>48}= {rate / 1e9:16.7f}" in files.job.stdout

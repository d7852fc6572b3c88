"""Published files as a dataset: their traps, statistics by any number of ranks, and reading in blocks."""

import json
from typing import TYPE_CHECKING

import h5py
import numpy as np
import pytest
from weather_files import MEANS, contents, fields_of, rows_of, with_vortices, write_file, write_year

from hpcai.data import catalog
from hpcai.data.weather import statistics, survey
from hpcai.data.weather.blocks import BlockOrder
from hpcai.data.weather.layout import BOXES
from hpcai.data.weather.published import open_published
from hpcai.data.weather.statistics import FILE
from hpcai.data.weather.turning import MERIDIONAL
from hpcai.errors import DataError, Refused

if TYPE_CHECKING:
    from pathlib import Path

    from hpcai.comm.world import World

FRAMES = {1980: 10, 1981: 7, 1979: 9}


@pytest.fixture
def folder(tmp_path):
    for year, frames in FRAMES.items():
        write_year(tmp_path / "years", year, frames)
    return tmp_path / "years"


def everything(split):
    return np.arange(len(split))


def test_the_last_year_validates_and_the_others_train(folder):
    (folder / "climo_1982.h5.part").write_bytes(b"something else")
    data = open_published(folder)
    assert (len(data.train), len(data.validation)) == (19, 7)
    parts = [contents(folder / f"climo_{year}.h5") for year in (1979, 1980, 1981)]
    fields, rows = (np.concatenate(both) for both in zip(*parts[:2], strict=True))
    assert np.array_equal(data.train.frames(everything(data.train)), fields)
    assert np.array_equal(data.train.boxes(everything(data.train)), rows)
    assert np.array_equal(data.validation.frames(np.array([6, 0])), parts[2][0][[6, 0]])
    some = np.array([18, 0, 9, 8, 18, 3])
    assert np.array_equal(data.train.frames(some), fields[some])
    assert data.train.frames(some[:0]).shape == (0, 16, 40, 60)
    assert (data.name, data.shape, data.target, data.classes) == (
        "extremeweather-40x60",
        (16, 40, 60),
        0.35,
        (0, 1, 2, 3),
    )


def test_of_a_single_file_the_last_tenth_validates(tmp_path):
    path = write_year(tmp_path, 1980, 21)
    data = open_published(path)
    assert (len(data.train), len(data.validation)) == (19, 2)
    assert np.array_equal(data.validation.frames(np.arange(2)), contents(path)[0][19:])
    with pytest.raises(DataError, match="allowed: at least 2"):
        open_published(write_year(tmp_path / "one", 1980, 1))


def test_boxes_are_put_right_and_what_was_found_is_told(tmp_path):
    rows = rows_of(1, 12)
    rows[0, 14], rows[0, 4] = rows[0, 0], [4, 55, 12, 5, 1]  # a row after unused ones, a box across the edge
    rows[1, 0], rows[2, 0], rows[3, 0] = [8, 8, 8, 9, 1], [-3, 2, 5, 9, 1], [3, 2, 5, 9, 7]
    data = open_published(write_file(tmp_path / "climo_1980.h5", with_vortices(fields_of(1, 12), rows), rows))
    assert "50 boxes, 1 wrapped, 1 outside, 1 degenerate, 1 unknown, 1 misplaced" in data.source
    boxes = data.train.boxes(everything(data.train))
    assert boxes.shape == (11, BOXES, 5) and np.count_nonzero(boxes[0, :, 4] >= 0) == 6
    assert boxes[0, 4].tolist() == [4, 55, 12, 60, 1] and boxes[0, 5].tolist() == rows[0, 14].tolist()
    assert boxes[1, :, 4].max() >= 0 and np.count_nonzero(boxes[1, :, 4] >= 0) == 3


def test_statistics_are_those_of_the_training_frames(folder):
    data = open_published(folder)
    fields = data.train.frames(everything(data.train)).astype(np.float64)
    mean, std = fields.mean((0, 2, 3)), fields.std((0, 2, 3))
    mean[list(MERIDIONAL)] = 0
    assert np.allclose(data.mean, mean, rtol=1e-6, atol=0) and np.allclose(data.std, std, rtol=1e-6, atol=0)
    assert data.mean.dtype == data.std.dtype == np.float32
    assert np.isclose(data.mean[2], MEANS[2], rtol=1e-3)


def test_a_constant_channel_has_deviation_one(tmp_path):
    fields = fields_of(1, 3)
    fields[:, 5] = 7
    assert open_published(write_file(tmp_path / "climo_1980.h5", fields, rows_of(1, 3))).std[5] == 1


def passes(monkeypatch):
    """The frames that passes over the fields read from now on."""
    seen, genuine = [], survey._found

    def found(part, begin, stop):
        seen.extend((part.year.path.name, frame) for frame in range(begin, stop))
        return genuine(part, begin, stop)

    monkeypatch.setattr(survey, "_found", found)
    return seen


def test_statistics_are_kept_and_found_anew_only_for_what_changed(folder, monkeypatch):
    fingerprint, mean = (lambda data: (data.fingerprint, data.mean))(open_published(folder))
    seen = passes(monkeypatch)
    assert open_published(folder).fingerprint == fingerprint and not seen
    with h5py.File(folder / "climo_1980.h5", "r+") as file:
        file["images"][4, 3, 2, 1] += 1
    second = open_published(folder)
    assert {name for name, _ in seen} == {"climo_1980.h5"} and len(seen) == 10
    assert second.fingerprint != fingerprint and second.mean[3] > mean[3]


@pytest.mark.parametrize("damage", ["{", "[]", '{"format": 1, "parts": [], "digest": "0"}'])
def test_statistics_that_are_damaged_are_made_again(folder, monkeypatch, damage):
    first, seen = open_published(folder), passes(monkeypatch)
    monkeypatch.setattr("hpcai.data.weather.statistics._remembered", {})
    good = (folder / FILE).read_text()
    (folder / FILE).write_text(damage)
    assert open_published(folder).fingerprint == first.fingerprint and len(seen) == 26
    assert (folder / FILE).read_text() == good


def test_an_altered_statistic_is_not_believed(folder, monkeypatch):
    first = open_published(folder)
    monkeypatch.setattr("hpcai.data.weather.statistics._remembered", {})
    content = json.loads((folder / FILE).read_text())
    content["parts"][0]["mean"][0] += 1
    (folder / FILE).write_text(json.dumps(content))
    assert np.array_equal(open_published(folder).mean, first.mean)


def test_a_folder_that_cannot_be_written_is_told_and_does_no_harm(folder, monkeypatch, capsys):
    def refused(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("pathlib.Path.write_text", refused)
    open_published(folder)
    assert "cannot be kept" in capsys.readouterr().err and not (folder / FILE).exists()
    seen = passes(monkeypatch)
    open_published(folder)
    assert not seen


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_fields_that_are_not_finite_are_refused(tmp_path, value):
    fields = fields_of(1, 6)
    fields[4, 6, 3, 3] = value
    with pytest.raises(DataError, match="climo_1980.h5: TMQ of frame 4 is not finite"):
        open_published(write_file(tmp_path / "climo_1980.h5", fields, rows_of(1, 6)))


def test_exchanged_boxes_stop_it(tmp_path):
    rows = rows_of(5, 12)
    wrong = np.ascontiguousarray(rows[:, :, [1, 0, 3, 2, 4]])
    with pytest.raises(DataError, match="x and y are exchanged"):
        open_published(write_file(tmp_path / "climo_1980.h5", with_vortices(fields_of(5, 12), rows), wrong))


def test_generated_files_never_pass_for_published_ones(folder):
    with h5py.File(folder / "climo_1980.h5", "r+") as file:
        file.attrs["formula"] = "generated weather"
    assert open_published(folder).name == "generated-weather-40x60"


def test_files_of_two_grids_are_refused(folder):
    write_file(folder / "climo_1990.h5", fields_of(1, 2, 20, 20), rows_of(1, 2, 20, 20))
    with pytest.raises(DataError, match=r"climo_1990.h5 has fields \(16, 20, 20\); allowed: \(16, 40, 60\)"):
        open_published(folder)


@pytest.mark.parametrize("samples", [2, 7, 18])
def test_fewer_samples_are_spread_evenly(folder, samples):
    data, whole = open_published(folder, samples=samples), open_published(folder)
    chosen = np.arange(samples) * 19 // samples
    assert np.array_equal(data.train.frames(everything(data.train)), whole.train.frames(chosen))
    assert np.array_equal(data.train.boxes(everything(data.train)), whole.train.boxes(chosen))
    assert data.fingerprint != whole.fingerprint and len(data.validation) == 7
    with pytest.raises(DataError, match=r"allowed: 0 \(all\) or 2 to 19"):
        open_published(folder, samples=20)


@pytest.mark.parallel(3)
def test_ranks_divide_the_pass_and_find_the_same(tmp_path_factory: pytest.TempPathFactory) -> None:
    from mpi4py import MPI

    from hpcai.comm import world as worlds

    world: World = worlds.join()
    folder: Path = world.comm.bcast(tmp_path_factory.mktemp("weather") if world.rank == 0 else None)
    if world.rank == 0:
        for year, frames in FRAMES.items():
            write_year(folder / "alone", year, frames)
            write_year(folder / "together", year, frames)
    world.comm.Barrier()
    data = open_published(folder / "together", world.comm)
    assert open_published(folder / "together").fingerprint == data.fingerprint
    statistics._remembered.clear()
    alone = open_published(folder / "alone", MPI.COMM_SELF) if world.rank == 0 else data
    assert alone.fingerprint == data.fingerprint
    assert np.array_equal(alone.mean, data.mean) and np.array_equal(alone.std, data.std)
    if world.rank == 0:
        rows = rows_of(5, 12)
        write_file(
            folder / "wrong" / "climo_1980.h5", with_vortices(fields_of(5, 12), rows), rows[:, :, [1, 0, 3, 2, 4]]
        )
    world.comm.Barrier()
    with pytest.raises(Refused, match="x and y are exchanged"):
        open_published(folder / "wrong", world.comm)


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_an_epoch_in_blocks_is_all_frames_block_by_block(folder, ranks):
    begins = open_published(folder).train.begins
    assert begins.tolist() == [0, 4, 8, 9, 13, 17, 19]
    orders = [BlockOrder(begins, 3, epoch, ranks)(np.arange(19)) for epoch in (0, 1)]
    assert all(np.array_equal(np.sort(order), np.arange(19)) for order in orders)
    assert not np.array_equal(*orders)
    for rank in range(ranks):
        taken = np.searchsorted(begins, orders[0][: 19 // ranks * ranks][rank::ranks], side="right")
        changes = np.count_nonzero(np.diff(taken))
        assert changes == len(set(taken.tolist())) - 1, "a block that was left does not come again"


def stored(path):
    """Bytes of the compressed fields."""
    with h5py.File(path, locking=False) as file:
        return file["images"].id.get_storage_size()


def test_a_block_is_inflated_once_for_all_its_frames(folder):
    data = open_published(folder)
    for index in BlockOrder(data.train.begins, 3, 0)(np.arange(19)):
        data.train.frames(np.array([index]))
    assert data.train.meter.measured()["bytes_read"] == sum(
        stored(folder / f"climo_{year}.h5") for year in (1979, 1980)
    )


def test_the_catalogue_knows_folders_and_files(folder, tmp_path):
    spec = f"extremeweather:{folder}"
    catalog.check(spec)
    assert {path.name for path in catalog.files(spec)} == {"climo_1979.h5", "climo_1980.h5", "climo_1981.h5"}
    data = catalog.open_weather(spec)
    assert data.fingerprint == open_published(folder).fingerprint
    needed = np.arange(19) < 3
    names = {path.name for path in catalog.files(spec, 0, needed)}
    assert names == {"climo_1979.h5", "climo_1981.h5", FILE}
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in catalog.files(spec):
        (copy / file.name).write_bytes(file.read_bytes())
    assert catalog.open_weather(spec, copied=copy).fingerprint == data.fingerprint


@pytest.mark.parametrize("asked", [{"classes": 2}, {"resolution": 96}])
def test_files_have_classes_and_a_grid_of_their_own(folder, asked):
    spec = f"extremeweather:{folder}"
    with pytest.raises(DataError, match="of extremeweather-40x60; allowed: 0 or the 4"):
        catalog.open_weather(spec, **asked)
    assert catalog.open_weather(spec, classes=4, resolution=40).classes == (0, 1, 2, 3)


@pytest.mark.parametrize("verb", [catalog.check, catalog.open_weather])
def test_a_place_without_files_is_refused(tmp_path, verb):
    for path, fault in ((tmp_path, "has neither weather.json nor files"), (tmp_path / "absent", "is not there")):
        with pytest.raises(DataError, match=f"{fault}.*; allowed: a folder with the published files climo_YYYY.h5"):
            verb(f"extremeweather:{path}")


def test_pictures_are_no_fields_and_fields_are_no_pictures(folder):
    with pytest.raises(DataError, match="is not one of climate fields; allowed: generated | extremeweather:PATH"):
        catalog.open_weather("fashion")
    with pytest.raises(DataError, match="is of climate fields, not of pictures; allowed: fashion"):
        catalog.open_dataset(f"extremeweather:{folder}")

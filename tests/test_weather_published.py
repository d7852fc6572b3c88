"""Published files as a dataset: its splits, faulty files, reading in blocks, and its place in the catalogue."""


import h5py
import numpy as np
import pytest
from sampled_parameters import one_in
from weather_files import contents, fields_of, rows_of, with_vortices, write_file, write_year, write_years

from hpcai.data import catalog
from hpcai.data.weather import statistics
from hpcai.data.weather.block_order import BlockOrder
from hpcai.data.weather.layout import BOXES
from hpcai.data.weather.published import open_published
from hpcai.data.weather.statistics import FILE
from hpcai.errors import DataError


@pytest.fixture
def folder(tmp_path):
    return write_years(tmp_path / "years")


@pytest.fixture(autouse=True)
def _without_caches(monkeypatch):
    monkeypatch.setattr(statistics, "_remembered", {})


def everything(split):
    return np.arange(len(split))


def test_the_last_year_is_for_validation_and_the_others_for_training(folder):
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


def test_the_last_tenth_of_a_single_file_is_for_validation(tmp_path):
    path = write_year(tmp_path, 1980, 21)
    data = open_published(path)
    assert (len(data.train), len(data.validation)) == (19, 2)
    assert np.array_equal(data.validation.frames(np.arange(2)), contents(path)[0][19:])
    with pytest.raises(DataError, match="allowed: at least 2"):
        open_published(write_year(tmp_path / "one", 1980, 1))


def test_faulty_boxes_are_corrected_and_reported(tmp_path):
    rows = rows_of(1, 12)
    rows[0, 14], rows[0, 4] = rows[0, 0], [4, 55, 12, 5, 1]  # a row after unused ones, a box across the edge
    rows[1, 0], rows[2, 0], rows[3, 0] = [8, 8, 8, 9, 1], [-3, 2, 5, 9, 1], [3, 2, 5, 9, 7]
    data = open_published(write_file(tmp_path / "climo_1980.h5", with_vortices(fields_of(1, 12), rows), rows))
    assert "50 boxes, 1 wrapped, 1 outside, 1 degenerate, 1 unknown, 1 misplaced" in data.source
    boxes = data.train.boxes(everything(data.train))
    assert boxes.shape == (11, BOXES, 5) and np.count_nonzero(boxes[0, :, 4] >= 0) == 6
    assert boxes[0, 4].tolist() == [4, 55, 12, 60, 1] and boxes[0, 5].tolist() == rows[0, 14].tolist()
    assert boxes[1, :, 4].max() >= 0 and np.count_nonzero(boxes[1, :, 4] >= 0) == 3


def test_generated_files_are_never_official(folder):
    with h5py.File(folder / "climo_1980.h5", "r+") as file:
        file.attrs["formula"] = "generated weather"
    assert open_published(folder).name == "generated-weather-40x60"


def test_files_of_two_grids_are_refused(folder):
    write_file(folder / "climo_1990.h5", fields_of(1, 2, 20, 20), rows_of(1, 2, 20, 20))
    with pytest.raises(DataError, match=r"climo_1990.h5 has fields \(16, 20, 20\); allowed: \(16, 40, 60\)"):
        open_published(folder)


@pytest.mark.parametrize("samples", one_in(3, [2, 7, 18]))
def test_fewer_samples_are_spread_evenly(folder, samples):
    data, whole = open_published(folder, samples=samples), open_published(folder)
    chosen = np.arange(samples) * 19 // samples
    assert np.array_equal(data.train.frames(everything(data.train)), whole.train.frames(chosen))
    assert np.array_equal(data.train.boxes(everything(data.train)), whole.train.boxes(chosen))
    assert data.fingerprint != whole.fingerprint and len(data.validation) == 7
    with pytest.raises(DataError, match=r"allowed: 0 \(all\) or 2 to 19"):
        open_published(folder, samples=20)


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_an_epoch_in_blocks_has_all_frames_block_by_block(folder, ranks):
    begins = open_published(folder).train.begins
    assert begins.tolist() == [0, 4, 8, 9, 13, 17, 19]
    orders = [BlockOrder(begins, 3, epoch, ranks)(np.arange(19)) for epoch in (0, 1)]
    assert all(np.array_equal(np.sort(order), np.arange(19)) for order in orders)
    assert not np.array_equal(*orders)
    for rank in range(ranks):
        taken = np.searchsorted(begins, orders[0][: 19 // ranks * ranks][rank::ranks], side="right")
        changes = np.count_nonzero(np.diff(taken))
        assert changes == len(set(taken.tolist())) - 1, "a block is read once"


def stored(path):
    """Bytes of the compressed fields."""
    with h5py.File(path, locking=False) as file:
        return file["images"].id.get_storage_size()


@pytest.mark.parametrize("batch", [1, 3])
def test_a_block_is_decompressed_once_for_all_its_frames(folder, batch):
    """Also if batches end within blocks."""
    data = open_published(folder)
    order = BlockOrder(data.train.begins, 3, 0)(np.arange(19))
    assert np.any(np.diff(order) < 0)
    for indices in np.split(order, range(batch, 19, batch)):
        data.train.frames(indices)
    assert data.train.meter.measured()["bytes_read"] == sum(
        stored(folder / f"climo_{year}.h5") for year in (1979, 1980)
    )


def test_the_catalogue_contains_folders_and_files(folder, tmp_path):
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


def test_the_catalogue_contains_generated_fields():
    asked = {"samples": 6, "classes": 2, "resolution": 48, "seed": 3}
    data = catalog.open_weather("generated", **asked)
    assert (len(data.train), data.shape, data.classes) == (6, (16, 48, 72), (1, 2))
    assert catalog.open_weather_for({"DATASET": "generated", **{name.upper(): asked[name] for name in asked}}) is data


@pytest.mark.parametrize("asked", [{"classes": 2}, {"resolution": 96}])
def test_classes_and_grid_of_files_cannot_be_set(folder, asked):
    spec = f"extremeweather:{folder}"
    with pytest.raises(DataError, match="of extremeweather-40x60; allowed: 0 or the 4"):
        catalog.open_weather(spec, **asked)
    assert catalog.open_weather(spec, classes=4, resolution=40).classes == (0, 1, 2, 3)


@pytest.mark.parametrize("verb", [catalog.check, catalog.open_weather])
def test_a_folder_without_files_is_refused(tmp_path, verb):
    for path, fault in ((tmp_path, "has neither weather.json nor files"), (tmp_path / "absent", "is not there")):
        with pytest.raises(DataError, match=f"{fault}.*; allowed: a folder with the published files climo_YYYY.h5"):
            verb(f"extremeweather:{path}")


def test_images_and_fields_are_refused_in_place_of_each_other(folder):
    with pytest.raises(DataError, match="is not one of climate fields; allowed: generated | extremeweather:PATH"):
        catalog.open_weather("fashion")
    with pytest.raises(DataError, match="is of climate fields, not of images; allowed: fashion"):
        catalog.open_dataset(f"extremeweather:{folder}")


def test_a_frame_that_changed_after_its_statistics_were_stored_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(statistics, "_WHOLE", 0)
    monkeypatch.setattr(statistics, "_PLACES", 2)
    monkeypatch.setattr(statistics, "_END", 16)
    path = write_year(tmp_path, frames=10, chunks=(1, 16, 40, 60))  # not compressed
    before = open_published(path).fingerprint
    with h5py.File(path, "r+") as file:
        file["images"][3, 2, 1, 1] += 1
    after = open_published(path)
    assert after.fingerprint == before  # which samples some places
    assert len(after.train.frames(np.arange(3))) == 3
    with pytest.raises(DataError, match=r"climo_1980.h5: frame 3 has changed since its statistics were stored"):
        after.train.frames(np.arange(3, 5))


def test_boxes_that_changed_are_surveyed_again(tmp_path, monkeypatch):
    monkeypatch.setattr(statistics, "_WHOLE", 0)
    monkeypatch.setattr(statistics, "_PLACES", 2)
    monkeypatch.setattr(statistics, "_END", 16)
    path = write_year(tmp_path)
    before = open_published(path).fingerprint
    with h5py.File(path, "r+") as file:
        file["boxes"][1, 0, 4] = (file["boxes"][1, 0, 4] + 1) % 2
    assert open_published(path).fingerprint != before

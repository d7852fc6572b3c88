"""Statistics of published files: right, kept, computed again if necessary, the same by any number of ranks."""

import json
from typing import TYPE_CHECKING

import h5py
import numpy as np
import pytest
from sampled_parameters import one_in
from weather_files import MEANS, fields_of, rows_of, with_vortices, write_file, write_years

from hpcai.data.weather import statistics, survey
from hpcai.data.weather.augmentation import MERIDIONAL
from hpcai.data.weather.published import open_published
from hpcai.data.weather.statistics import FILE
from hpcai.errors import DataError, Refused

if TYPE_CHECKING:
    from pathlib import Path

    from hpcai.comm.world import World


@pytest.fixture
def folder(tmp_path):
    return write_years(tmp_path / "years")


@pytest.fixture(autouse=True)
def _without_caches(monkeypatch):
    monkeypatch.setattr(statistics, "_remembered", {})


def everything(split):
    return np.arange(len(split))


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
    """The frames that are read from now on to compute statistics."""
    seen, genuine = [], survey._found

    def found(part, begin, stop):
        seen.extend((part.year.path.name, frame) for frame in range(begin, stop))
        return genuine(part, begin, stop)

    monkeypatch.setattr(survey, "_found", found)
    return seen


def test_statistics_are_kept_and_computed_again_only_for_changed_files(folder, monkeypatch):
    fingerprint, mean = (lambda data: (data.fingerprint, data.mean))(open_published(folder))
    seen = passes(monkeypatch)
    assert open_published(folder).fingerprint == fingerprint and not seen
    with h5py.File(folder / "climo_1980.h5", "r+") as file:
        file["images"][4, 3, 2, 1] += 1
    second = open_published(folder)
    assert {name for name, _ in seen} == {"climo_1980.h5"} and len(seen) == 10
    assert second.fingerprint != fingerprint and second.mean[3] > mean[3]


@pytest.mark.parametrize("damage", one_in(3, ["{", "[]", '{"format": 1, "parts": [], "digest": "0"}']))
def test_damaged_statistics_are_computed_again(folder, monkeypatch, damage):
    first, seen = open_published(folder), passes(monkeypatch)
    monkeypatch.setattr(statistics, "_remembered", {})
    good = (folder / FILE).read_text()
    (folder / FILE).write_text(damage)
    assert open_published(folder).fingerprint == first.fingerprint and len(seen) == 26
    assert (folder / FILE).read_text() == good


def test_an_altered_statistic_is_not_used(folder, monkeypatch):
    first = open_published(folder)
    monkeypatch.setattr(statistics, "_remembered", {})
    content = json.loads((folder / FILE).read_text())
    content["parts"][0]["mean"][0] += 1
    (folder / FILE).write_text(json.dumps(content))
    assert np.array_equal(open_published(folder).mean, first.mean)


def test_a_folder_that_cannot_be_written_is_reported_without_an_error(folder, monkeypatch, capsys):
    def refused(*_: object, **__: object) -> None:
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


def test_exchanged_boxes_are_refused(tmp_path):
    rows = rows_of(5, 12)
    wrong = np.ascontiguousarray(rows[:, :, [1, 0, 3, 2, 4]])
    with pytest.raises(DataError, match="x and y are exchanged"):
        open_published(write_file(tmp_path / "climo_1980.h5", with_vortices(fields_of(5, 12), rows), wrong))


@pytest.mark.parallel(3)
def test_ranks_divide_the_files_and_compute_the_same(tmp_path_factory: pytest.TempPathFactory) -> None:
    from mpi4py import MPI

    from hpcai.comm import world as worlds

    world: World = worlds.join()
    folder: Path = world.comm.bcast(tmp_path_factory.mktemp("weather") if world.rank == 0 else None)
    if world.rank == 0:
        write_years(folder / "alone")
        write_years(folder / "together")
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

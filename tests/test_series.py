"""series.h5: time series of a result in HDF5; a file that differs from its result is detected."""

import os
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from small_run import GOLDEN, golden, rebuilt
from synthetic_search import searched
from written_files import write_unlisted

from hpcai.record.loading import load, result_of
from hpcai.report import series
from hpcai.verification import verify
from hpcai.workloads.nas import lines as nas


def test_the_file_has_curves_and_telemetry_of_an_ensemble(tmp_path: Path) -> None:
    write_unlisted(tmp_path, load(GOLDEN / "result.json"))
    stored = golden()["tests"][1]
    raw, telemetry = stored["raw"], stored["telemetry"]
    with h5py.File(tmp_path / "series.h5") as file:
        assert list(file) == ["test-1", "test-2"]
        test = file["test-2"]
        assert list(test) == ["curve", "telemetry"]
        assert test["curve/epoch"][()].tolist() == [entry["epoch"] for entry in raw["curve"]]
        quality = [entry["correct"] / entry["counted"] for entry in raw["curve"]]
        assert test["curve/quality"][()].tolist() == quality and test["curve/quality"].attrs["unit"] == "1"
        assert test["telemetry/seconds"][()].tolist() == [sample[0] for sample in telemetry["series"]]
        assert test["telemetry/memory_bytes"].attrs["unit"] == "byte"
        assert np.isnan(test["telemetry/gpus"][()]).all()


def test_the_file_has_score_and_trials_of_a_search(tmp_path: Path) -> None:
    write_unlisted(tmp_path, result_of(searched()))
    test = searched()["tests"][0]
    with h5py.File(tmp_path / "series.h5") as file:
        own = file[f"test-{test['index']}"]
        for name in nas.SCORE:
            assert own[f"score/{name}"][()].tolist() == [point[name] for point in test["scores"]["series"]]
        trials = [each["id"] for each in test["raw"]["trials"] for _ in each["curve"]]
        assert own["curve/trial"][()].tolist() == trials
        entries = [entry for each in test["raw"]["trials"] for entry in each["curve"]]
        missing = [entry["correct"] is None for entry in entries]
        assert np.isnan(own["curve/quality"][()]).tolist() == missing
    assert verify.differences(tmp_path / "result.json") == []


def _other_value(file: h5py.File) -> None:
    file["test-1/curve/loss"][0] += 1e-9


def _shorter(file: h5py.File) -> None:
    vector = file["test-1/curve/loss"][:-1]
    del file["test-1/curve/loss"]
    file["test-1/curve/loss"] = vector


def _missing(file: h5py.File) -> None:
    del file["test-1/curve/loss"]


def _more(file: h5py.File) -> None:
    file["test-1/curve/loss2"] = np.zeros(2)


def _vast(file: h5py.File) -> None:
    del file["test-1/curve/loss"]
    file.create_dataset("test-1/curve/loss", (2**50,), np.float64, chunks=(2**20,))


def _other_unit(file: h5py.File) -> None:
    file["test-1/curve/loss"].attrs["unit"] = "bit"


def _soft_link(file: h5py.File) -> None:
    file["test-1/curve/loss2"] = h5py.SoftLink("/test-1/curve/loss")


def _elsewhere(file: h5py.File) -> None:
    vector = file["test-1/curve/loss"][()]
    del file["test-1/curve/loss"]
    path = Path(file.filename).with_name("elsewhere")
    vector.tofile(path)
    file.create_dataset("test-1/curve/loss", vector.shape, vector.dtype, external=[(str(path), 0, vector.nbytes)])
    file["test-1/curve/loss"].attrs["unit"] = "1"


FAULTS = (_other_value, _shorter, _missing, _more, _vast, _other_unit, _soft_link, _elsewhere)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_that_differs_from_its_result_is_detected(tmp_path: Path, fault: Callable[[h5py.File], None]) -> None:
    write_unlisted(tmp_path, load(GOLDEN / "result.json"))
    with h5py.File(tmp_path / "series.h5", "r+") as file:
        fault(file)
    (found,) = verify.differences(tmp_path / "result.json")
    assert found.startswith("series.h5, test-1/curve/loss") and "not what the result file says" in found


def test_an_object_that_is_not_a_file_is_not_opened(tmp_path: Path) -> None:
    write_unlisted(tmp_path, load(GOLDEN / "result.json"))
    (tmp_path / "series.h5").unlink()
    os.mkfifo(tmp_path / "series.h5")
    assert verify.differences(tmp_path / "result.json") == ["series.h5 is no file"]


@pytest.mark.parametrize("data", [b"", b"no HDF5", b"\x89HDF\r\n\x1a\n" + b"\xff" * 600])
def test_a_file_that_is_not_hdf5_is_detected(tmp_path: Path, data: bytes) -> None:
    write_unlisted(tmp_path, load(GOLDEN / "result.json"))
    (tmp_path / "series.h5").write_bytes(data)
    (found,) = verify.differences(tmp_path / "result.json")
    assert found.startswith("series.h5 cannot be read")


@pytest.mark.slow
def test_a_damaged_file_causes_no_crash(tmp_path: Path) -> None:
    write_unlisted(tmp_path, load(GOLDEN / "result.json"))
    path = tmp_path / "series.h5"
    whole = path.read_bytes()
    for place in range(0, len(whole), 397):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        verify.differences(tmp_path / "result.json")


def test_a_result_without_tests_has_no_series(tmp_path: Path) -> None:
    empty = golden()
    empty["tests"] = []
    write_unlisted(tmp_path, result_of(rebuilt(empty)))
    assert not (tmp_path / "series.h5").exists()
    assert series.contents(result_of(empty)) == b""

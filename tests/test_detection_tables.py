"""Detections as a table and as a file: exactly the written ones are read."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_detections import drawn

from hpcai.detections import MOST, detection_tables
from hpcai.errors import HpcaiError

MOMENTS = np.array([[1980, 3], [1982, 0], [1980, 7]], np.int32)


def found(seed: int, frames: int) -> tuple[detection_tables.DetectionTables, Any]:
    made, tables = drawn(seed, frames), detection_tables.empty(frames)
    order = np.random.default_rng(seed).permutation(frames).tolist()
    tables.enter(order, [made.detections[k] for k in order], [made.truths[k] for k in order])
    return tables, made


@given(st.integers(0, 2**32), st.integers(0, 6))
def test_the_order_of_entering_frames_does_not_matter(seed: int, frames: int) -> None:
    tables, made = found(seed, frames)
    assert all(map(np.array_equal, detection_tables.used(tables.detections), made.detections))
    assert np.array_equal(tables.boxes, np.array(made.truths, np.int32).reshape(-1, detection_tables.TRUE, 5))
    assert tables.detections.dtype == np.float32 and tables.boxes.dtype == np.int32


def test_frames_beyond_the_table_are_left_out() -> None:
    tables, rows = detection_tables.empty(2), np.ones((1, 6), np.float32)
    tables.enter([5, -1, 1], [rows] * 3, [np.zeros((detection_tables.TRUE, 5))] * 3)
    assert [len(own) for own in detection_tables.used(tables.detections)] == [0, 1]
    assert (tables.boxes[0] == -1).all() and (tables.boxes[1] == 0).all()


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.integers(1, 5), st.booleans())
def test_written_detections_are_read_back(tmp_path_factory: Any, seed: int, frames: int, generated: bool) -> None:
    tables, path = found(seed, frames)[0], tmp_path_factory.mktemp("stored") / detection_tables.name(3)
    moments = np.full((frames, 2), seed % 1000, np.int32) if generated else None
    detection_tables.write(path, tables, detection_tables.Metadata((1, 2), moments))
    again, about = detection_tables.read(path, frames)
    assert detection_tables.digest(again) == detection_tables.digest(tables) and all(map(np.array_equal, again, tables))
    assert about.classes == (1, 2)
    assert about.moments is None if moments is None else np.array_equal(about.moments, moments)
    assert [each.name for each in path.parent.iterdir()] == ["detections-3.h5"]


def test_the_file_describes_its_contents(tmp_path: Path) -> None:
    """For readers without this program."""
    detection_tables.write(tmp_path / "x.h5", found(1, 3)[0], detection_tables.Metadata((1, 2), MOMENTS))
    with h5py.File(tmp_path / "x.h5") as file:
        assert {name: (each.shape, each.dtype.str) for name, each in file.items()} == {
            "boxes": ((3, 15, 5), "<i4"),
            "detections": ((3, MOST, 6), "<f4"),
            "moments": ((3, 2), "<i4"),
        }
        assert file.attrs["classes"].tolist() == [1, 2]
        assert file["detections"][0, -1].tolist() == [0, 0, 0, 0, -1, -1]


@given(st.integers(0, 2**32), st.data())
def test_any_changed_bit_changes_the_digest(seed: int, data: st.DataObject) -> None:
    tables, _ = found(seed, 3)
    before = detection_tables.digest(tables)
    table = data.draw(st.sampled_from(tables)).view(np.uint8).reshape(-1)
    table[data.draw(st.integers(0, len(table) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert detection_tables.digest(tables) != before


def test_a_file_with_another_number_of_frames_is_refused(tmp_path: Path) -> None:
    detection_tables.write(tmp_path / "x.h5", found(1, 3)[0], detection_tables.Metadata((1, 2)))
    for frames in (0, 2, 4):
        with pytest.raises(ValueError, match=rf"detections are float32 \(3, 100, 6\); allowed: float32 \({frames}, "):
            detection_tables.read(tmp_path / "x.h5", frames)


def test_a_missing_folder_is_reported_and_no_file_is_left(tmp_path: Path) -> None:
    with pytest.raises(HpcaiError, match=f"cannot write {tmp_path}/gone/x.h5: No such file or directory"):
        detection_tables.write(tmp_path / "gone" / "x.h5", detection_tables.empty(1), detection_tables.Metadata((1,)))
    (tmp_path / "x.h5").mkdir()
    with pytest.raises(HpcaiError, match="cannot write"):
        detection_tables.write(tmp_path / "x.h5", detection_tables.empty(1), detection_tables.Metadata((1,)))
    assert [each.name for each in tmp_path.iterdir()] == ["x.h5"]

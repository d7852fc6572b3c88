"""Measured tiles are kept: damaged, foreign and unwritable files cause no errors, and ranks may write at once."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from launch import ROOT

from hpcai.kernels.cuda import tuning
from hpcai.kernels.cuda.architecture import CUBIN, Target
from hpcai.kernels.cuda.compiler import PLACE
from hpcai.kernels.cuda.gpu import Gpu
from hpcai.kernels.cuda.tiling import MMA, Tile
from hpcai.kernels.gemm.cuda.launches import SOURCE

GPU = Gpu("Some GPU", Target("sm_90a", CUBIN, (9, 0)), 132, 50 * 2**20)
TILES = [Tile(MMA, 128, 128, 3), Tile(MMA, 64, 64, 3), Tile(MMA, 64, 64, 3, parts=4)]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(PLACE, str(tmp_path))
    monkeypatch.delenv(tuning.SWITCH, raising=False)
    found = tuning.file_of(GPU, SOURCE)
    assert found
    return found


class Measuring:
    """Seconds of tiles, and the number of measurements."""

    def __init__(self, *seconds: float) -> None:
        self.seconds, self.times = dict(zip(TILES, seconds, strict=False)), 0

    def __call__(self) -> dict[Tile, float]:
        self.times += 1
        return self.seconds


def test_the_fastest_is_measured_once_and_kept(file: Path) -> None:
    measuring = Measuring(3.0, 2.0, 1.0)
    assert [tuning.chosen("a product", TILES, file, measuring) for _ in range(3)] == [TILES[2]] * 3
    assert measuring.times == 1
    assert tuning.chosen("another", TILES, file, Measuring(1.0, 2.0, 3.0)) == TILES[0]
    assert tuning.chosen("a product", TILES, file, Measuring()) == TILES[2]
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    assert json.loads(file.read_text())["a product"] == {
        "seconds": 1.0,
        "tile": {"engine": "MMA", "rows": 64, "columns": 64, "stages": 3, "down": 2, "across": 2}
        | {"blocks": 1, "cluster": 1, "ping_pong": False, "parts": 4},
        "tried": 3,
    }


def test_without_choice_file_or_measurement_the_first_is_taken(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measuring = Measuring(3.0, 2.0, 1.0)
    assert tuning.chosen("a product", TILES, None, measuring) == TILES[0]
    assert tuning.chosen("a product", TILES[:1], file, measuring) == TILES[0]
    assert measuring.times == 0
    assert tuning.chosen("a product", TILES, file, Measuring()) == TILES[0]  # such as lack of memory
    assert not file.exists()
    monkeypatch.setenv(tuning.SWITCH, "off")
    assert tuning.file_of(GPU, SOURCE) is None
    monkeypatch.setenv(tuning.SWITCH, "perhaps")
    with pytest.raises(ValueError, match="HPCAI_CUDA_TUNING=perhaps; allowed: on, off"):
        tuning.file_of(GPU, SOURCE)


def test_nothing_is_measured_without_a_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("")
    monkeypatch.setenv(PLACE, str(file))  # which is not a folder
    assert tuning.file_of(GPU, SOURCE) is None


def entry(tile: Any) -> str:
    return json.dumps({"a product": {"tile": tile, "seconds": 1.0}})


DAMAGED = ["", "{", "[]", "null", '{"a product": 3}', entry(None), entry({"engine": "MMA"}), "\x00\xff"]
DAMAGED += ["9" * 5000, "[" * 10**6]


@pytest.mark.parametrize("text", DAMAGED, ids=range(len(DAMAGED)))
def test_tiles_of_a_damaged_file_are_measured_again(file: Path, text: str) -> None:
    file.write_bytes(text.encode("latin-1"))
    assert tuning.chosen("a product", TILES, file, Measuring(3.0, 1.0, 2.0)) == TILES[1]
    assert tuning.chosen("a product", TILES, file, Measuring()) == TILES[1]


def test_stored_tiles_that_are_no_longer_candidates_are_measured_again(file: Path) -> None:
    tuning.chosen("a product", TILES, file, Measuring(3.0, 2.0, 1.0))
    assert tuning.chosen("a product", TILES[:2], file, Measuring(3.0, 2.0)) == TILES[1]
    assert tuning.chosen("a product", TILES, file, Measuring()) == TILES[1]


def test_a_file_is_valid_for_one_device_and_the_current_sources(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others = [replace(GPU, name="Other"), replace(GPU, processors=66), replace(GPU, cache=1)]
    others.append(replace(GPU, target=Target("sm_80", CUBIN, (8, 0))))
    places = {file, *(tuning.file_of(gpu, SOURCE) for gpu in others), tuning.file_of(GPU, "crop/crop.cu")}
    assert len(places) == 6 and tuning.file_of(replace(GPU), SOURCE) == file
    monkeypatch.setattr(tuning, "PYTHON", ("cuda/tiling.py",))
    assert tuning.file_of(GPU, SOURCE) != file


def test_a_concurrent_measurement_adopts_the_tile_written_first(file: Path) -> None:
    def late() -> dict[Tile, float]:
        tuning.chosen("a product", TILES, file, Measuring(3.0, 2.0, 1.0))  # another rank, at the same time
        return Measuring(1.0, 2.0, 3.0)()

    assert tuning.chosen("a product", TILES, file, late) == TILES[2]


def test_many_writers_leave_a_complete_file(file: Path) -> None:
    def write(number: int) -> Tile:
        return tuning.chosen(f"product {number % 20}", TILES, file, Measuring(3.0, 2.0, 1.0))

    with ThreadPoolExecutor(8) as pool:
        assert {*pool.map(write, range(200))} == {TILES[2]}
    kept = json.loads(file.read_text())
    assert kept and {*kept} <= {f"product {number}" for number in range(20)}
    assert [path.name for path in file.parent.iterdir()] == [file.name]


NO_ROOM = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
from pathlib import Path
from hpcai.kernels.cuda import tuning
from hpcai.kernels.cuda.tiling import MMA, Tile
tiles = [Tile(MMA, 128, 128, 3), Tile(MMA, 64, 64, 3)]
print(tuning.chosen("a product", tiles, Path(sys.argv[1]), lambda: {tiles[0]: 2.0, tiles[1]: 1.0}).rows)
"""


@pytest.mark.parametrize("place", ["no room", "absent folder/file"])
def test_a_tile_that_cannot_be_stored_is_used_nevertheless(tmp_path: Path, place: str) -> None:
    command = [sys.executable, "-c", NO_ROOM, str(tmp_path / place)]
    assert subprocess.check_output(command, cwd=ROOT, env={**os.environ}).split() == [b"64"]
    assert not [*tmp_path.iterdir()]


def test_errors_of_the_measurement_are_raised_as_faults(file: Path) -> None:
    def broken() -> dict[Tile, float]:
        raise OSError("an illegal access")

    with pytest.raises(OSError, match="an illegal access"):
        tuning.chosen("a product", TILES, file, broken)

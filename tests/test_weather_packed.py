"""Packed climate fields: the packer's output for published files, and its reader."""

import json
import os
import shutil
import signal
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
from launch import ROOT, Finished, mpirun, run_job, start_job, wait_until
from weather_files import fields_of, rows_of, write_file, write_year

from hpcai.data import catalog
from hpcai.data.weather import augmentation
from hpcai.data.weather.packed import open_packed
from hpcai.data.weather.published import open_published
from hpcai.data.weather.statistics import FILE
from hpcai.errors import DataError

SMALL = ("--shard-bytes", "400000")  # five frames: one block of four
FRAMES = {1980: 9, 1981: 6, 1982: 5}


def pack(*arguments: object, ranks: int | None = None) -> Finished:
    return run_job(["-m", "hpcai.data.pack_weather", *map(str, arguments)], ranks, ROOT)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source")
    for year, frames in FRAMES.items():
        write_year(folder, year, frames)
    return folder


@pytest.fixture(scope="module")
def packed(source, tmp_path_factory):
    target = tmp_path_factory.mktemp("packed") / "deep" / "set"
    done = pack(source, target, *SMALL)
    assert (done.returncode, done.stderr) == (0, "")
    assert "15 + 5 frames, 7 shards" in done.stdout and "80 boxes" in done.stdout
    return target


@pytest.fixture
def copy(packed, tmp_path):
    return Path(shutil.copytree(packed, tmp_path / "set"))


def shards(target: Path) -> dict[str, bytes]:
    """Contents of all files of a packed set, except hidden ones."""
    return {path.name: path.read_bytes() for path in sorted(target.glob("[!.]*"))}


def everything(split):
    return np.arange(len(split))


def test_packed_frames_are_the_published_ones_normalised(source, packed):
    published, data = open_published(source), open_packed(packed)
    assert (data.name, data.shape, data.target) == (published.name, published.shape, published.target)
    assert not data.mean.any() and (data.std == 1).all() and data.mean.dtype == data.std.dtype == np.float32
    for split, origin in ((data.train, published.train), (data.validation, published.validation)):
        assert np.array_equal(split.boxes(everything(split)), origin.boxes(everything(origin)))
        raw = origin.frames(everything(origin)).astype(np.float64)
        expected = (raw - published.mean[:, None, None]) / published.std[:, None, None]
        found = split.frames(everything(split))
        assert found.dtype == np.float16 and found.shape == expected.shape
        assert np.allclose(found, expected, rtol=2**-11, atol=1e-4)
    some = np.array([7, 0, 7, 14])
    assert np.array_equal(data.train.frames(some), data.train.frames(everything(data.train))[some])
    assert data.train.frames(some[:0]).shape == (0, *data.shape)


def test_raw_pressure_would_not_fit_into_fp16(source):
    pressures = open_published(source).train.frames(np.arange(1))[:, 1:3]
    assert pressures.max() > np.finfo(np.float16).max


def test_each_frame_is_a_chunk_and_chunks_are_consecutive(packed):
    for path in packed.glob("*.h5"):
        with h5py.File(path) as file:
            images = file["images"]
            assert images.chunks == (1, 40, 60, 16) and images.dtype == np.float16 and images.compression is None
            begin = images.id.get_chunk_info_by_coord((0, 0, 0, 0)).byte_offset
            raw = np.fromfile(path, np.float16, images.size, offset=begin).reshape(images.shape)
            assert np.array_equal(raw, images[:])
            assert [zlib.crc32(image) for image in images] == file["crc32"][:].tolist()


def test_transforming_and_packing_commute(source, packed):
    published, data = open_published(source), open_packed(packed)
    raw, stored = (split.frames(np.arange(4)) for split in (published.train, data.train))
    transforms = np.array([[0, 1], [17, 1], [59, 0], [30, 1]])
    transformed, expected = np.empty_like(raw), np.empty((4, *data.shape), np.float16)
    augmentation.transformed_fields(raw, transforms, transformed)
    augmentation.transformed_fields(stored, transforms, expected)
    mean, std = (values[:, None, None] for values in (published.mean, published.std))
    assert np.array_equal(((transformed - mean) / std).astype(np.float16), expected)


@pytest.mark.slow
@pytest.mark.skipif(mpirun() is None, reason="NO mpirun: MPI TEST NOT RUN")
def test_any_number_of_ranks_makes_the_same_files(source, packed, tmp_path):
    fresh = Path(shutil.copytree(source, tmp_path / "source", ignore=lambda *_: [FILE]))
    done = pack(fresh, tmp_path / "set", *SMALL, ranks=3)
    assert done.returncode == 0, done.stderr
    made, expected = shards(tmp_path / "set"), shards(packed)
    indices = [json.loads(files.pop("weather.json")) for files in (made, expected)]
    assert made == expected and indices[0]["fingerprint"] == indices[1]["fingerprint"]
    assert pack("--check", tmp_path / "set", ranks=3).returncode == 0


@pytest.mark.slow
def test_a_killed_job_continues_with_the_missing_shards(source, packed, tmp_path):
    target = tmp_path / "set"
    with start_job(["-m", "hpcai.data.pack_weather", str(source), str(target), *SMALL], None) as job:
        assert wait_until(lambda: [*target.glob("train-*1.h5")], 60)
        os.kill(job.process.pid, signal.SIGKILL)
        job.process.wait()
    kept = {path.name: path.stat().st_mtime_ns for path in target.glob("*.h5")}
    (target / "train-00003.h5.elsewhere-1.part").write_bytes(b"left by another killed job")
    (target / "weather.json").unlink(missing_ok=True)
    done = pack(source, target, *SMALL)
    assert done.returncode == 0, done.stderr
    assert shards(target) == shards(packed)
    assert {name: (target / name).stat().st_mtime_ns for name in kept} == kept


@pytest.mark.slow
def test_a_flipped_bit_is_detected_and_the_shard_made_again(source, packed, copy):
    path = copy / "train-00001.h5"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    checked = pack("--check", copy)
    assert checked.returncode == 1 and "differs from its CRC-32" in checked.stdout and "2 differences" in checked.stdout
    with pytest.raises(DataError, match=r"train-00001.h5: sample \d \(climo_1980.h5, frame 4 \+ \d\) is damaged"):
        open_packed(copy).train.frames(np.arange(15))
    done = pack(source, copy, *SMALL)
    assert done.returncode == 0 and "train-00001.h5 is damaged: made again" in done.stderr
    assert shards(copy) == shards(packed)


@pytest.mark.slow
def test_shards_of_another_source_are_refused(source, copy, tmp_path):
    other = Path(shutil.copytree(source, tmp_path / "other"))
    write_year(other, 1980, 10)
    larger = ("--shard-bytes", "700000")
    for origin, options, reason in ((other, SMALL, "was made from other fields"), (source, larger, "has shards that")):
        done = pack(origin, copy, *options)
        assert done.returncode == 2 and reason in done.stderr, done.stderr


def test_values_beyond_fp16_are_refused(tmp_path):
    fields = fields_of(1, 3, 300, 300)
    fields[:, 7] = 280
    fields[0, 7, 3, 3] = 281
    fields[2, 7, 3, 3] = 1e9  # in the validation frame
    write_file(tmp_path / "climo_1980.h5", fields, rows_of(1, 3, 300, 300), chunks=None)
    done = pack(tmp_path, tmp_path / "set")
    assert done.returncode == 3 and "TREFHT of frame 2 exceeds what fp16 holds" in done.stderr
    assert not (tmp_path / "set" / "weather.json").exists()


@pytest.mark.parametrize("arguments", [[], ["only"], ["a", "b", "--shard-bytes", "-1"], ["a", "b", "--check", "c"]])
def test_illegal_options_are_refused(arguments):
    from hpcai.data import pack_weather

    with pytest.raises(SystemExit) as ended:
        pack_weather._options(arguments)
    assert ended.value.code == 2


def test_a_missing_source_is_refused(tmp_path):
    done = pack(tmp_path, tmp_path / "set")
    assert done.returncode == 3 and "has no files climo_YYYY.h5" in done.stderr and not (tmp_path / "set").exists()


def wrecked(name, alter):
    def wreck(folder):
        with h5py.File(folder / name, "r+") as file:
            alter(file)

    return wreck


@pytest.mark.parametrize(
    ("wreck", "message"),
    [
        (lambda folder: (folder / "train-00002.h5").unlink(), "train-00002.h5 cannot be read: No such file"),
        (lambda folder: os.truncate(folder / "train-00002.h5", 70_000), "train-00002.h5 holds 70000 bytes; allowed"),
        (lambda folder: os.truncate(folder / "weather.json", 300), "weather.json cannot be read"),
        (lambda folder: (folder / "weather.json").write_text("[]"), "weather.json cannot be read"),
        (wrecked("train-00001.h5", lambda file: file.attrs.modify("sha256", "0" * 64)), "is damaged, or another shard"),
        (
            wrecked("train-00001.h5", lambda file: file["boxes"].write_direct(np.zeros((4, 15, 5), np.int32))),
            "is damaged, or another shard",
        ),
    ],
)
def test_a_damaged_set_is_refused_when_it_is_opened(copy, wreck, message):
    wreck(copy)
    with pytest.raises(DataError, match=message):
        open_packed(copy)


def test_an_altered_index_is_refused(copy):
    content = json.loads((copy / "weather.json").read_text())
    content["mean"][0] += 1
    (copy / "weather.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match="weather.json is damaged"):
        open_packed(copy)


def test_the_catalogue_contains_packed_folders_and_their_files(packed):
    spec = f"extremeweather:{packed}"
    catalog.check(spec)
    data = catalog.open_weather(spec, 5)
    whole = catalog.open_weather(spec)
    assert np.array_equal(data.train.frames(np.arange(5)), whole.train.frames(np.arange(5) * 3))
    assert data.fingerprint != whole.fingerprint == json.loads((packed / "weather.json").read_text())["fingerprint"]
    names = {path.name for path in catalog.files(spec)}
    assert names == {path.name for path in packed.glob("*.*")} - {".lock"}
    few = [path.name for path in catalog.files(spec, 0, np.arange(15) < 2)]
    assert few == ["weather.json", "train-00000.h5", "validation-00000.h5", "validation-00001.h5"]


def test_reading_is_measured(packed):
    data = open_packed(packed)
    data.train.frames(np.array([3, 9]))
    measured = data.train.meter.measured()
    assert measured["bytes_read"] == 2 * 2 * 16 * 40 * 60 and measured["read_seconds"] > 0
    assert measured["decompress_seconds"] == 0

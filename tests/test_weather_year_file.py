"""One published file: its fields in any storage, and invalid files."""

import multiprocessing

import h5py
import numpy as np
import pytest
from weather_files import CHUNKS, contents, fields_of, rows_of, with_vortices, write_file, write_year

from hpcai.data.weather.box_orientation import check, count
from hpcai.data.weather.layout import CHANNELS
from hpcai.data.weather.read_counters import ReadCounters
from hpcai.data.weather.year_file import YearFile
from hpcai.errors import DataError

GZIP = {"compression": "gzip", "compression_opts": 1}
STORAGE = [
    {"chunks": CHUNKS, **GZIP},
    {"chunks": CHUNKS, "shuffle": True, **GZIP},
    {"chunks": CHUNKS},
    {"chunks": CHUNKS, "compression": "lzf"},
    {"chunks": CHUNKS, "fletcher32": True, **GZIP},
    {"chunks": (3, 2, 40, 60), **GZIP},
    {"chunks": (1, 16, 40, 60), **GZIP},
    {"chunks": None},
]


def read(path, begin, stop, threads=1, meter=None):
    year = YearFile(path)
    out = np.full((stop - begin, *year.shape), np.nan, np.float32)
    year.read(begin, stop, out, meter or ReadCounters(), threads)
    return out


@pytest.mark.parametrize("storage", STORAGE, ids=str)
@pytest.mark.parametrize("threads", [1, 3])
def test_any_frames_are_read_exactly_from_any_storage(tmp_path, storage, threads):
    path = write_year(tmp_path, frames=10, **storage)
    fields = contents(path)[0]
    for begin, stop in ((0, 10), (3, 4), (2, 9), (8, 10)):
        assert np.array_equal(read(path, begin, stop, threads), fields[begin:stop])


def test_uncompressed_and_unwritten_chunks_are_read(tmp_path):
    noise = np.random.default_rng(1).integers(0, 1 << 31, (6, 16, 12, 16), np.uint32).view(np.float32)
    noise[~np.isfinite(noise)] = 0
    rows = rows_of(1, 6, 20, 20)
    path = write_file(tmp_path / "climo_1980.h5", noise, rows, chunks=(2, 1, 12, 16), **GZIP)
    assert np.array_equal(read(path, 1, 6), noise[1:])
    with h5py.File(path, "r+") as file:
        del file["images"]
        file.create_dataset("images", (6, 16, 12, 16), np.float32, chunks=(2, 1, 12, 16), **GZIP)[:3] = noise[:3]
    out = read(path, 0, 6)
    assert np.array_equal(out[:3], noise[:3]) and not out[3:].any()


@pytest.mark.parametrize("shuffle", [True, False])
def test_numbers_of_the_other_byte_order_are_read(tmp_path, shuffle):
    fields = fields_of(1, 3)
    storage = {"chunks": (3, 1, 8, 8), "shuffle": shuffle, **GZIP}
    path = write_file(tmp_path / "climo_1980.h5", fields.astype(">f4"), rows_of(1, 3), **storage)
    assert np.array_equal(read(path, 0, 3), fields)


def test_the_number_of_frames_is_that_of_the_file_and_sizes_have_64_bits(tmp_path):
    path, last = tmp_path / "climo_1981.h5", fields_of(1, 1, 768, 1152)[0]
    with h5py.File(path, "w") as file:  # a whole year of 2.06e10 numbers, of which one frame is stored
        images = file.create_dataset("images", (1456, 16, 768, 1152), np.float32, chunks=(1, 4, 768, 1152))
        images[1455] = last
        file["boxes"] = rows_of(1, 1456)
    year = YearFile(path)
    assert (year.frames, year.shape, year.block) == (1456, (16, 768, 1152), 1)
    assert np.array_equal(read(path, 1455, 1456)[0], last)


def test_the_time_of_reading_is_measured(tmp_path):
    path, meter = write_year(tmp_path, frames=8), ReadCounters()
    read(path, 0, 8, 2, meter)
    measured = meter.measured()
    with h5py.File(path, locking=False) as file:
        stored = file["images"].id.get_storage_size()
    assert measured["bytes_read"] == stored
    assert measured["read_seconds"] > 0 and measured["decompress_seconds"] > 0


def _read_in_child(year, expected, answer):
    out = np.empty_like(expected)
    year.read(0, len(expected), out, ReadCounters())
    answer.put(bool(np.array_equal(out, expected)))


def test_a_process_opens_its_own_file_even_if_another_has_it_open(tmp_path):
    path = write_year(tmp_path, frames=4)
    year, expected = YearFile(path), contents(path)[0]
    out = np.empty_like(expected)
    year.read(0, 4, out, ReadCounters())
    handle = year.dataset()
    process = multiprocessing.get_context("fork")
    answer = process.SimpleQueue()
    child = process.Process(target=_read_in_child, args=(year, expected, answer))
    child.start()
    assert answer.get() is True
    child.join()
    assert year.dataset() == handle, "and this one keeps its own"


@pytest.mark.parametrize(
    ("images", "rows", "message"),
    [
        (np.zeros((2, 15, 4, 4), "f4"), rows_of(1, 2, 20, 20), r"images has shape \(2, 15, 4, 4\)"),
        (np.zeros((2, 16, 4), "f4"), rows_of(1, 2, 20, 20), "images has shape"),
        (np.zeros((0, 16, 4, 4), "f4"), rows_of(1, 0, 20, 20), r"images has shape \(0"),
        (np.zeros((2, 16, 4, 4), "f8"), rows_of(1, 2, 20, 20), "images is of type float64"),
        (np.zeros((2, 16, 4, 4), "f4"), rows_of(1, 3, 20, 20), "2 frames, boxes of 3"),
        (np.zeros((2, 16, 4, 4), "f4"), np.zeros((2, 15, 4), "i4"), "boxes has shape"),
        (np.zeros((2, 16, 4, 4), "f4"), np.zeros((2, 15, 5), "f4"), "type float32"),
    ],
)
def test_other_layouts_are_refused(tmp_path, images, rows, message):
    with h5py.File(tmp_path / "climo_1980.h5", "w") as file:
        file["images"], file["boxes"] = images, rows
    with pytest.raises(DataError, match=f"climo_1980.h5: .*{message}.*; allowed: a file with images, float32"):
        YearFile(tmp_path / "climo_1980.h5")


def test_truncated_files_and_other_formats_are_refused(tmp_path):
    path = tmp_path / "climo_1980.h5"
    path.write_bytes(b"no such file")
    with pytest.raises(DataError, match="climo_1980.h5 cannot be read"):
        YearFile(path)
    path = write_year(tmp_path, 1981, 4)
    year = YearFile(path)
    with h5py.File(path, "r+") as file:
        file["images"].id.write_direct_chunk((0, 3, 12, 16), b"not deflated")
    with pytest.raises(DataError, match="climo_1981.h5 cannot be read"):
        year.read(0, 4, np.empty((4, *year.shape), np.float32), ReadCounters())


def exchanged(rows):
    """The boxes as [xmin, ymin, xmax, ymax]."""
    return np.ascontiguousarray(rows[:, :, [1, 0, 3, 2, 4]])


@pytest.mark.parametrize("south_first", [True, False])
def test_exchanged_boxes_are_detected_by_the_vortices(tmp_path, south_first):
    rows = rows_of(5, 12)
    fields = with_vortices(fields_of(5, 12), rows)
    if south_first:
        fields[:, CHANNELS.index("V850")] *= -1
    sound = YearFile(write_file(tmp_path / "sound.h5", fields, rows))
    votes = check(sound)
    assert votes.right > 10 and votes.exchanged < 4  # some overlap
    wrong = YearFile(write_file(tmp_path / "wrong.h5", fields, exchanged(rows)))
    assert count(wrong).exchanged == votes.right
    with pytest.raises(DataError, match=r"wrong.h5: \d+ of \d+ tropical cyclones .* if x and y are exchanged"):
        check(wrong)


def test_boxes_that_fit_in_one_order_only_need_no_vortex(tmp_path):
    rows = np.full((12, 15, 5), -1, np.int32)
    rows[:, 0] = [30, 42, 38, 50, 1]
    fields = np.zeros((12, 16, 40, 60), np.float32)
    assert count(YearFile(write_file(tmp_path / "sound.h5", fields, rows))).right == 12
    with pytest.raises(DataError, match="12 of 12"):
        check(YearFile(write_file(tmp_path / "wrong.h5", fields, exchanged(rows))))


def test_a_few_doubtful_cyclones_are_accepted(tmp_path):
    rows = rows_of(6, 12)
    votes = check(YearFile(write_file(tmp_path / "noise.h5", fields_of(6, 12), rows)))  # no vortex anywhere
    assert votes.right and votes.exchanged
    assert check(YearFile(write_file(tmp_path / "two.h5", fields_of(6, 1), exchanged(rows[:1])))).right <= 4

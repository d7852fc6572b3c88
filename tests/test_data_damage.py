"""Data files truncated, with flipped bits, emptied, or replaced by other objects: refused by name, or other datasets.

The shipped file is identified by its SHA-256, gzip and packed images have checksums. Uncompressed files of the
published format have none: a flipped pixel makes them another dataset, whose fingerprint and name are in every result.
"""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from idx_files import write_set
from launch import ROOT, mpirun, run_job
from packed_set import copy_of_set

from hpcai.data import catalog, dataset_paths, fashion_mnist, packed_images
from hpcai.data.image_dataset import fingerprint
from hpcai.data.image_shards import IMAGE_BYTES, read_index
from hpcai.errors import DataError

Wreck = Callable[[Path], object]
LABELS, IMAGES = "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte"
INPUT = "Damaged data\nNothing is to be run\n[ensemble]\n{} DATASET\n1 GROUPS\n1 DEGREE\n8 BATCH\n"


def bit_flipped(content: bytes, place: int, bit: int) -> bytes:
    changed = bytearray(content)
    changed[place] ^= 1 << bit
    return bytes(changed)


def flips(content: bytes, count: int, first: int = 0) -> Iterator[bytes]:
    """The content with one bit flipped, at `count` places behind `first`."""
    rng = random.Random(count)
    for _ in range(count):
        yield bit_flipped(content, rng.randrange(first, len(content)), rng.randrange(8))


def cuts(content: bytes, count: int) -> Iterator[bytes]:
    rng = random.Random(count)
    yield from (content[:length] for length in (0, 1, len(content) - 1))
    yield from (content[: rng.randrange(len(content))] for _ in range(count))


def refused(read: Callable[[], object], file: Path) -> None:
    """Assert that reading names the file and the allowed content, in one line."""
    with pytest.raises(DataError, match="allowed: ") as caught:
        read()
    assert file.name in str(caught.value)
    assert str(caught.value).isprintable()


def read_or_refused(read: Callable[[], str], file: Path) -> str | None:
    """The fingerprint of the data, or None if they are refused in one line that names the file."""
    try:
        return read()
    except DataError as error:
        said = str(error)
    assert file.name in said and "allowed: " in said and said.isprintable()
    return None


def folder_in_its_place(file: Path) -> None:
    file.unlink()
    file.mkdir()


def link_to_itself(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.name)


def link_to_nothing(file: Path) -> None:
    file.unlink()
    file.symlink_to("nowhere")


def pipe(file: Path) -> None:
    """A reader that opens one waits forever for a writer."""
    file.unlink()
    os.mkfifo(file)


def unreadable(file: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("NOT CHECKED: root reads every file")
    file.chmod(0)


WRECKS: tuple[Wreck, ...] = (folder_in_its_place, link_to_itself, link_to_nothing, pipe, unreadable)


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    return Path(shutil.copy(dataset_paths.SHIPPED, tmp_path))


@pytest.fixture(params=[".gz", ""], ids=["gzip", "plain"])
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Path, str]:
    """A small made-up set, and the suffix of its files."""
    return write_set(tmp_path / "set", np.arange(40) % 10, np.arange(20) % 10, bool(request.param)), request.param


def test_shipped_file_with_another_bit_anywhere_is_refused(shipped: Path) -> None:
    content = shipped.read_bytes()
    assert fingerprint(*fashion_mnist.read_shipped(shipped)) == fingerprint(*fashion_mnist.read_subset(shipped))
    for damaged in (*flips(content, 40), *flips(content[:4096], 20), *cuts(content, 10), content + b"\0"):
        shipped.write_bytes(damaged)
        refused(lambda: fashion_mnist.read_shipped(shipped), shipped)


@pytest.mark.parametrize("wreck", [folder_in_its_place, link_to_itself, link_to_nothing, unreadable])
def test_shipped_file_replaced_by_another_object_is_refused(shipped: Path, wreck: Wreck) -> None:
    wreck(shipped)
    refused(lambda: fashion_mnist.read_shipped(shipped), shipped)


@pytest.mark.parametrize("name", [LABELS, IMAGES])
def test_truncated_files_are_refused(folder: tuple[Path, str], name: str) -> None:
    path, shutdown = folder
    file = path / (name + shutdown)
    for damaged in cuts(file.read_bytes(), 25):
        file.write_bytes(damaged)
        refused(lambda: fashion_mnist.read_folder(path), file)


@pytest.mark.parametrize("name", [LABELS, IMAGES])
def test_a_flipped_bit_is_refused_or_makes_another_dataset(folder: tuple[Path, str], name: str) -> None:
    path, shutdown = folder
    file = path / (name + shutdown)
    content, sound, found = file.read_bytes(), fingerprint(*fashion_mnist.read_folder(path)), []
    for damaged in flips(content, 150):
        file.write_bytes(damaged)
        found.append(read_or_refused(lambda: fingerprint(*fashion_mnist.read_folder(path)), file))
    if shutdown:  # some bits have no meaning: those of the time, of unused codes
        assert set(found) == {sound, None}
    else:
        assert sound not in found
        assert {fashion_mnist.name(digest) for digest in found if digest} == {"fashion-mnist-altered"}


@pytest.mark.parametrize("wreck", WRECKS)
def test_objects_that_are_not_files_are_refused(folder: tuple[Path, str], wreck: Wreck) -> None:
    path, shutdown = folder
    wreck(path / (LABELS + shutdown))
    refused(lambda: catalog.open_dataset(f"fashion:{path}"), path / LABELS)


def test_index_of_packed_images_with_another_bit_is_refused_or_equivalent(tmp_path: Path) -> None:
    folder = copy_of_set(tmp_path / "set")
    index = folder / dataset_paths.INDEX
    content, sound = index.read_bytes(), packed_images.open_packed(folder).fingerprint
    for damaged in (*flips(content, 100), *cuts(content, 10)):
        index.write_bytes(damaged)
        assert read_or_refused(lambda: packed_images.open_packed(folder).fingerprint, index) in (sound, None)


def test_shard_with_another_bit_around_its_images_is_refused_before_hdf5_reads_it(tmp_path: Path) -> None:
    folder = copy_of_set(tmp_path / "set")
    shard = folder / "train-00001.h5"
    content = shard.read_bytes()
    entry = read_index(folder).train[1]
    end = entry.begin + entry.samples * IMAGE_BYTES
    places = [*range(0, min(entry.begin, 4096), 37), *range(end, len(content), max(1, (len(content) - end) // 100))]
    for place in places:
        shard.write_bytes(bit_flipped(content, place, place % 8))
        refused(lambda: packed_images.open_packed(folder), shard)
    shard.write_bytes(bit_flipped(content, entry.begin + 5, 3))
    assert packed_images.open_packed(folder).classes == 4  # found when the sample is read


# --- the program


def refusal_by_program(folder: Path, program: Path, dataset: str, ranks: int | None, *options: str) -> str:
    """The program's message about a damaged dataset: one line, exit code 2, and nothing written."""
    (folder / "damaged.dat").write_text(INPUT.format(dataset))
    before = sorted(folder.iterdir())
    job = run_job([program, "damaged.dat", *options], ranks, folder)
    assert (job.returncode, job.stdout, job.stderr.count("\n")) == (2, "", 1), job.stderr
    assert job.stderr.startswith("hpcai: ") and "allowed: " in job.stderr
    assert sorted(folder.iterdir()) == before
    return job.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "options"), [(None, ["--check"]), (2, [])], ids=["check", "run"])
def test_program_names_the_damaged_file(tmp_path: Path, ranks: int | None, options: list[str]) -> None:
    if ranks and mpirun() is None:
        pytest.skip("NO mpirun: RUN NOT CHECKED")
    write_set(tmp_path / "set", np.arange(40) % 10, np.arange(20) % 10)
    file = tmp_path / "set" / f"{IMAGES}.gz"
    file.write_bytes(bit_flipped(file.read_bytes(), 100, 3))
    assert file.name in refusal_by_program(tmp_path, ROOT / "bench.py", "fashion:set", ranks, *options)


@pytest.mark.slow
def test_program_names_its_own_damaged_file(tmp_path: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("hpcai", "kernels"):
        shutil.copytree(ROOT / name, tmp_path / "copy" / name, symlinks=True, ignore=ignored)
    program = Path(shutil.copy(ROOT / "bench.py", tmp_path / "copy"))
    file = tmp_path / "copy" / dataset_paths.SHIPPED.relative_to(ROOT)
    file.write_bytes(bit_flipped(file.read_bytes(), 100_000, 0))
    job = run_job(
        [program, "--check", "--ranks", "2", ROOT / "input.dat"],
        None,
        tmp_path,
        env={"PYTHONPATH": str(tmp_path / "copy")},
    )
    assert (job.returncode, job.stdout, job.stderr.count("\n")) == (2, "", 1), job.stderr
    assert f"{file} is damaged" in job.stderr

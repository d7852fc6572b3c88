"""Generated images: Random123's known answers, and the same bytes by NumPy, one core, the host's C++ and a GPU."""

import ctypes
import subprocess
import sys

import numpy as np
import pytest
from checkout import copy_kernels
from cuda_on_host import SCHEDULES, built, planted, run
from test_philox import KNOWN_ANSWERS, words

from hpcai.data import philox
from hpcai.kernels.images import TRAINING, VALIDATION, Formula, Part, cupy_gpu, numba_cpu, reference
from hpcai.machine import device

FEW = np.array([0, 1, 2, 77, 2**32 - 1, 2**32, 2**40 + 12345, 2**63 - 1])
NAMES = ("side", "classes", "symbols", "synonyms", "grid", "shifts", "corrupted", "relabelled")
SIZES = {
    "small": (32, 10, 16, 2, 4, 4, 3 << 30, 1 << 29),
    "one shift within a cell": (32, 10, 16, 3, 4, 1, 0, 0),
    "cut from a larger canvas": (33, 7, 5, 1, 4, 2, 2**32 - 1, 2**32 - 1),
    "smallest": (8, 2, 16, 2, 2, 2, 1 << 31, 1 << 31),
    "most cells": (64, 65536, 64, 2, 8, 8, 1 << 30, 1 << 30),
}
LARGE = (224, 1000, 64, 2, 7, 7, 3435973836, 1 << 29)


def formula(size, seed=2**63 - 25):
    return Formula(seed=seed, tag=5, **dict(zip(NAMES, size, strict=True)))


def by_reference(made, split, indices):
    table = reference.textures(made)
    return np.stack([reference.image(made, split, int(index), table) for index in indices])


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_known_answers_of_random123(counter, key, answer):
    @numba_cpu.compiled
    def drawn(counter, key, out):
        for line in range(len(out)):
            out[line] = numba_cpu.philox(counter[0], counter[1], counter[2], counter[3], key[0], key[1])

    out = np.zeros((3, 4), np.uint32)
    drawn(np.array(words(counter), np.uint32), np.array(words(key), np.uint32), out)
    assert out.tolist() == [words(answer)] * 3
    plain = reference.philox(tuple(words(key)), np.array([words(counter)] * 2, np.uint64))
    assert plain.tolist() == [words(answer)] * 2


def test_streams_are_those_of_the_benchmark():
    """No draw is shared with a sampler, an order or the weights: their counters have the same layout."""
    made = formula(SIZES["small"])
    index, purpose = 2**40 + 3, made.tag
    drawn = reference.draw(made, Part.NOISE, VALIDATION, index, 5)[4]
    number = philox.stream(philox.Purpose(purpose), 4, made.tag_of(Part.NOISE, VALIDATION) & 0xFFFF)
    assert int(drawn[1]) << 32 | int(drawn[0]) == int(philox.uniform64(made.seed, number, np.array([index]))[0])


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES.keys())
@pytest.mark.parametrize("split", [TRAINING, VALIDATION])
def test_one_core_makes_the_bytes_of_the_reference(size, split):
    made = formula(size)
    maker = numba_cpu.Maker(made, split)
    assert np.array_equal(maker.images(FEW), by_reference(made, split, FEW))
    assert maker.labels(FEW).tolist() == [reference.label(made, split, int(index)) for index in FEW]


def test_one_core_makes_the_bytes_of_the_reference_at_full_size():
    made = formula(LARGE)
    assert np.array_equal(numba_cpu.Maker(made, 0).images(FEW[:3]), by_reference(made, 0, FEW[:3]))


def test_brightness_never_overflows():
    images = numba_cpu.Maker(formula(SIZES["small"]), 0).images(np.arange(3000))
    assert images.min() < 15 and images.max() > 240
    neighbours = np.abs(np.diff(images.astype(int), axis=3))
    assert np.median(neighbours) < 25  # smooth, but for noise and the cells' edges
    assert np.mean(neighbours > 200) < 1e-4  # an overflow would jump


def test_a_shift_rolls_the_whole_canvas():
    """Without noise in cells, light and pixels, an image is its class's canvas, rolled cyclically."""
    made = formula((32, 3, 16, 1, 4, 4, 0, 0))
    table = reference.textures(made)
    canvases = [reference._canvas(made, 0, index, table) for index in (1, 4, 7)]
    assert all(np.array_equal(canvas, canvases[0]) for canvas in canvases)
    views = [reference._view(made, 0, index, canvases[0]) for index in (1, 4, 7)]
    assert not np.array_equal(views[0], views[1])
    assert all(len(np.unique(view)) > 20 for view in views)


@pytest.mark.parametrize("changed", [{"grid": 9, "side": 72}, {"shifts": 5}, {"shifts": 0}, {"corrupted": 2**32}])
def test_formula_out_of_range_is_refused(changed):
    with pytest.raises(ValueError, match="allowed"):
        Formula(seed=1, tag=5, **{**dict(zip(NAMES, SIZES["small"], strict=True)), **changed})


@pytest.mark.exhaustive
def test_images_are_made_where_nothing_can_be_written(tmp_path):
    """A read-only checkout and no home: compiled again, the same bytes."""
    program = (
        "import os, stat, sys; import numpy as np\n"
        "from numba.core import caching\n"
        "from hpcai.kernels.images import numba_cpu, Formula\n"
        "assert numba_cpu.draw_code._cache.__class__ is caching.NullCache\n"
        f"made = Formula(7, 5, {', '.join(map(str, SIZES['small']))})\n"
        "print(numba_cpu.Maker(made, 0).images(np.arange(2)).sum())\n"
    )
    copy = copy_kernels(tmp_path / "checkout")
    # a file in the place of the folder stops root as well, unlike permissions
    (copy / "kernels" / "__pycache__").write_text("")
    environment = {"HOME": "/proc/none", "NUMBA_CACHE_DIR": "", "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    job = subprocess.run([sys.executable, "-c", program], cwd=copy, env=environment, capture_output=True, text=True)
    made = Formula(7, 5, *SIZES["small"])
    assert job.stdout.split() == [str(numba_cpu.Maker(made, 0).images(np.arange(2)).sum())], job.stderr


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_known_answers_of_the_cuda_source(counter, key, answer):
    out = np.zeros(4, np.uint32)
    given = [np.array(words(text), np.uint32) for text in (counter, key)]
    host = built(cupy_gpu.PROGRAM, cupy_gpu.PROGRAM.path)
    host.philox_on_host(*(ctypes.c_void_p(array.ctypes.data) for array in (*given, out)))
    assert out.tolist() == words(answer)


def by_cuda(made, split, indices, schedule, library=None):
    out = np.full((len(indices), 3, made.side, made.side), 99, np.uint8)
    memory = (out, np.ascontiguousarray(indices), reference.textures(made), cupy_gpu.numbers(made, split))
    places = tuple(np.uint64(array.ctypes.data) for array in memory)
    run(cupy_gpu.launch(places, len(indices), made), schedule, library)
    return out


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("size", [*SIZES.values(), LARGE], ids=[*SIZES.keys(), "large"])
@pytest.mark.parametrize("split", [TRAINING, VALIDATION])
def test_cuda_source_makes_the_same_bytes_on_the_host(size, split, schedule):
    made, indices = formula(size), FEW[:3] if size == LARGE else FEW
    assert np.array_equal(by_cuda(made, split, indices, schedule), numba_cpu.Maker(made, split).images(indices))


FAULTS = [("    sync_block();\n", ""), ("j < (nbytes + 15)", "j + 1 < (nbytes + 15)")]


@pytest.mark.parametrize(("right", "wrong"), FAULTS)
def test_a_fault_of_the_cuda_source_is_detected(right, wrong, tmp_path):
    made = formula(SIZES["small"])
    library = planted(cupy_gpu.PROGRAM, tmp_path, right, wrong)
    expected = numba_cpu.Maker(made, TRAINING).images(FEW)
    assert not all(np.array_equal(by_cuda(made, TRAINING, FEW, each, library), expected) for each in SCHEDULES)


@pytest.mark.skipif(device.accelerators() == 0, reason="NO GPU: ITS BYTES ARE NOT COMPARED")
@pytest.mark.parametrize("size", [*SIZES.values(), LARGE], ids=[*SIZES.keys(), "large"])
def test_gpu_makes_the_same_bytes(size):
    made, own = formula(size), device.first()
    for split in (TRAINING, VALIDATION):
        images = cupy_gpu.maker(made, split, own)(FEW)
        assert np.array_equal(images.cpu().numpy(), numba_cpu.Maker(made, split).images(FEW))
    assert cupy_gpu.maker(made, TRAINING, own)(FEW[:0]).shape == (0, 3, made.side, made.side)

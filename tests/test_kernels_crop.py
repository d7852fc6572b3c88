"""The crop: every backend gives the bytes of the reference, and the reference resizes correctly."""

import ctypes
import subprocess

import numpy as np
import pytest
import torch
from cuda_sources import host_compiler
from launch import ROOT
from PIL import Image
from sampled_parameters import fast

from hpcai.kernels.crop import check, numba_cpu, reference

KERNEL = ROOT / "kernels" / "crop" / "crop.cu"
RANDOM = np.random.default_rng(5)
SHAPES = [  # n, height and width of the images, side of the result
    (8, 256, 256, 224),
    (4, 256, 256, 32),
    (4, 256, 256, 8),
    (3, 100, 256, 400),
    (3, 17, 23, 1024),
    (2, 1024, 9, 8),
    (5, 1, 1, 8),
    (0, 256, 256, 224),
]


def drawn_boxes(n, height, width):
    """Random boxes; the last is the whole image, the one before a single pixel in the last corner."""
    sizes = [RANDOM.integers(1, side + 1, n) for side in (height, width)]
    starts = [RANDOM.integers(0, side - size + 1) for side, size in zip((height, width), sizes, strict=True)]
    boxes = np.stack([*starts, *sizes, RANDOM.integers(0, 2, n)], 1).astype(np.int32)
    boxes[-2:] = ([height - 1, width - 1, 1, 1, 0], [0, 0, height, width, 1])[-n:] if n else boxes
    return boxes


def drawn(n, height, width, channels=3):
    images = RANDOM.integers(0, 256, (n, height, width, channels), np.uint8)
    images[: n // 2] = RANDOM.choice([0, 255], images[: n // 2].shape)  # the largest sums and the smallest
    return images, drawn_boxes(n, height, width)


def referred(images, boxes, side):
    out = np.full((len(images), side, side, images.shape[3]), 77, np.uint8)
    reference.crop(images, boxes, out)
    return out


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("n", "height", "width", "side"), fast(SHAPES[1:], SHAPES))
def test_numba_gives_the_bytes_of_the_reference(n, height, width, side, channels):
    images, boxes = drawn(n, height, width, channels)
    out = np.full((n, side, side, channels), 99, np.uint8)
    numba_cpu.crop(images, boxes, out)
    assert np.array_equal(out, referred(images, boxes, side))


@pytest.mark.parametrize("side", [8, 63, 224])
def test_weights_of_numba_are_those_of_the_reference_at_every_size(side):
    for size in range(1, 257):
        expected, (first, weights) = reference.weights(size, side), numba_cpu._taps(size, side)
        dense = np.zeros_like(expected)
        for i, (start, row) in enumerate(zip(first, weights, strict=True)):
            dense[i, start : start + len(row)] = row
        assert np.array_equal(dense, expected)


@pytest.fixture(scope="module")
def on_host(tmp_path_factory):
    library = tmp_path_factory.mktemp("crop") / "crop.so"
    source = ROOT / "tests" / "crop_on_host.cpp"
    sanitised = ["-fsanitize=undefined", "-fno-sanitize-recover", "-static-libubsan"]
    flags = ["-std=c++17", "-O1", "-Wall", "-Werror", *sanitised, "-shared", "-fPIC"]
    command = [host_compiler("crop"), *flags, f'-DKERNEL="{KERNEL}"', "-o", library, source]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library)).crop_on_host


@pytest.mark.parametrize(("n", "height", "width", "side"), SHAPES)
def test_the_cuda_kernel_run_on_the_host_gives_the_bytes_of_the_reference(on_host, n, height, width, side):
    images, boxes = drawn(n, height, width)
    out = np.full((n, side, side, 3), 99, np.uint8)
    on_host(*(ctypes.c_void_p(array.ctypes.data) for array in (images, boxes, out)), n, height, width, side)
    assert np.array_equal(out, referred(images, boxes, side))


@pytest.mark.skipif("not torch.cuda.is_available()", reason="NO GPU: crop.cu NOT RUN ON A DEVICE")
@pytest.mark.parametrize(("n", "height", "width", "side"), SHAPES)
def test_the_gpu_gives_the_bytes_of_the_reference(n, height, width, side):
    from hpcai.kernels.crop import cupy_gpu

    images, boxes = drawn(n, height, width)
    with torch.cuda.stream(torch.cuda.Stream()):
        out = cupy_gpu.crop(torch.from_numpy(images).cuda(), torch.from_numpy(boxes).cuda(), side)
        assert np.array_equal(out.cpu().numpy(), referred(images, boxes, side))


def test_a_box_of_the_requested_size_is_copied():
    images, boxes = drawn(2, 40, 50)
    boxes[:] = ([3, 7, 16, 16, 0], [24, 34, 16, 16, 1])
    out = referred(images, boxes, 16)
    assert np.array_equal(out[0], images[0, 3:19, 7:23])
    assert np.array_equal(out[1], images[1, 24:40, 34:50][:, ::-1])


@pytest.mark.parametrize(("size", "side"), [(256, 224), (256, 32), (100, 224), (90, 224), (37, 36)])
def test_resizing_equals_an_antialiased_bilinear_filter(size, side):
    image = RANDOM.integers(0, 256, (1, size, size, 3), np.uint8)
    out = referred(image, np.array([[0, 0, size, size, 0]], np.int32), side)
    pillow = Image.fromarray(image[0]).resize((side, side), Image.Resampling.BILINEAR)
    difference = np.abs(out[0].astype(int) - np.asarray(pillow))
    assert difference.max() <= 1  # Pillow rounds to bytes after the first direction
    assert difference.mean() < 0.25


@pytest.mark.parametrize("value", [0, 1, 128, 255])
def test_an_image_of_one_colour_keeps_it(value):
    images, boxes = drawn(2, 256, 256)
    images[:] = value
    for side in (8, 224, 300):
        assert (referred(images, boxes, side) == value).all()


@pytest.mark.parametrize(
    ("boxes", "dtype"),
    [
        ([[0, 0, 6, 8, 0]], np.int64),
        ([[-1, 0, 3, 3, 0]], np.int32),
        ([[0, 0, 0, 3, 0]], np.int32),
        ([[4, 0, 3, 3, 0]], np.int32),
        ([[0, 6, 3, 3, 0]], np.int32),
        ([[0, 0, 3, 3, 0]] * 2, np.int32),
        ([[0, 0, 3, 3]], np.int32),
    ],
)
def test_boxes_outside_of_the_image_are_refused(boxes, dtype):
    with pytest.raises(ValueError, match="do not fit together|leaves its image"):
        check((1, 6, 8, 3), np.array(boxes, dtype), (1, 8, 8, 3))


@pytest.mark.parametrize("out", [(1, 8, 9, 3), (2, 8, 8, 3), (1, 8, 8, 1), (1, 1025, 1025, 3)])
def test_results_of_the_wrong_size_are_refused(out):
    with pytest.raises(ValueError, match="do not fit together"):
        check((1, 6, 8, 3), np.array([[0, 0, 6, 8, 0]], np.int32), out)

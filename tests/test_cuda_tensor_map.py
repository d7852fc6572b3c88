"""Tensor maps are refused if the accelerator cannot process them, passed to the driver, and copy what they describe."""

import ctypes
import itertools
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cuda_sources import host_compiler
from launch import ROOT

from hpcai.kernels.cuda import tensor_map
from hpcai.kernels.cuda.launch import Launch, Program, addresses, enqueue, parameters, structure, target_of
from hpcai.kernels.cuda.tensor_map import MAP, Tiled, encoded
from hpcai.kernels.providers import Unavailable

COPY_BOX = Program(str(ROOT / "tests" / "cuda_launches.cu"), "copy_box", (("TENSOR_MAPS", 1),))
SOUND = Tiled(4096, "bfloat16", (1000, 77, 5), (2000, 2000 * 77), (64, 128, 1), 128)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"dtype": "complex64"}, "no element type of tensor maps; there are uint8, int8, int32"),
        ({"swizzle": 16}, r"swizzle is one of \[0, 32, 64, 128\] bytes"),
        ({"promotion": 32}, r"promotion is one of \[0, 64, 128, 256\] bytes"),
        ({"dims": (), "strides": (), "box": ()}, "1 to 5 dimensions"),
        ({"dims": (64,) * 6, "strides": (128,) * 5, "box": (8,) * 6}, "1 to 5 dimensions"),
        ({"strides": (2000,)}, "one stride less"),
        ({"box": (64, 128)}, "as many of the box"),
        ({"address": 4104}, "the address is a multiple of 16"),
        ({"address": 0}, "the address is a multiple of 16"),
        ({"dims": (1000, 0, 5)}, r"dimensions are 1 to 2\^32"),
        ({"dims": (2**32 + 1, 77, 5)}, r"dimensions are 1 to 2\^32"),
        ({"strides": (2008, 2000 * 77)}, r"strides are multiples of 16 below 2\^40"),
        ({"strides": (2000, 2**40)}, r"strides are multiples of 16 below 2\^40"),
        ({"box": (64, 257, 1)}, "dimensions of the box are 1 to 256"),
        ({"box": (64, 0, 1)}, "dimensions of the box are 1 to 256"),
        ({"box": (12, 128, 1)}, "24 bytes along the innermost dimension of the box; multiples of 16"),
        ({"swizzle": 64}, "128 bytes along the innermost dimension of the box, more than are swizzled"),
        ({"box": (72, 128, 1)}, "144 bytes along the innermost dimension of the box, more than are swizzled"),
    ],
)
def test_maps_beyond_the_accelerators_limits_are_refused(change: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=f"{why}.*: Tiled"):
        replace(SOUND, **change)


def test_maps_at_the_limits_are_allowed() -> None:
    assert (SOUND.inner, SOUND.nbytes) == (128, 128 * 128)
    assert replace(SOUND, box=(256, 256, 1), swizzle=0).inner == 512
    assert replace(SOUND, swizzle=64, box=(32, 256, 2)).nbytes == 64 * 512
    assert replace(SOUND, dims=(2**32, 1, 1), strides=(2**40 - 16, 16), address=16)
    assert Tiled(16, "int8", (5,), (), (16,), 32)


STAND_IN = ROOT / "tests" / "tensor_map_stand_in.cpp"
GIVEN = structure(
    *(("type", np.int32), ("rank", np.uint32), ("address", np.uint64), ("dims", (np.uint64, 5))),
    *(("strides", (np.uint64, 4)), ("box", (np.uint32, 5)), ("steps", (np.uint32, 5)), ("options", (np.int32, 4))),
)


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A library that replaces the driver's, which machines without a GPU lack."""
    library = tmp_path / "stand_in.so"
    subprocess.run([host_compiler("tensor map"), "-shared", "-fPIC", "-o", library, STAND_IN], check=True)
    monkeypatch.setattr(tensor_map, "LIBRARY", str(library))
    tensor_map._library.cache_clear()
    yield ctypes.CDLL(str(library))
    tensor_map._library.cache_clear()


def test_the_driver_is_given_every_field(stand_in: Any) -> None:
    for _ in range(5):  # at any address of its memory
        assert encoded(SOUND).tolist() == [7] * 128
    given = np.frombuffer((ctypes.c_uint8 * GIVEN.itemsize).in_dll(stand_in, "seen"), GIVEN)[0]
    assert (given["type"], given["rank"], given["address"]) == (9, 3, 4096)
    assert given["dims"].tolist() == [1000, 77, 5, 0, 0] and given["strides"].tolist() == [2000, 154000, 0, 0]
    assert given["box"].tolist() == [64, 128, 1, 0, 0] and given["steps"].tolist() == [1, 1, 1, 0, 0]
    assert given["options"].tolist() == [0, 3, 2, 0]
    encoded(Tiled(2**46, "tfloat32", (2**32,), (), (8,), 32, 256))
    given = np.frombuffer((ctypes.c_uint8 * GIVEN.itemsize).in_dll(stand_in, "seen"), GIVEN)[0]
    assert (given["type"], given["rank"], given["address"], given["dims"][0]) == (11, 1, 2**46, 2**32)
    assert given["options"].tolist() == [0, 1, 3, 0]


def test_a_refusal_of_the_driver_is_reported_with_its_name_and_the_map(stand_in: Any) -> None:
    with pytest.raises(OSError, match=r"EncodeTiled: CUDA_ERROR_OF_A_KIND \(700\): Tiled\(address=32, .*128"):
        encoded(replace(SOUND, address=32))


def test_tensor_maps_are_unavailable_without_a_driver_that_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("libnowhere.so.1", None):  # None: this process itself, which has no such function
        monkeypatch.setattr(tensor_map, "LIBRARY", library)
        tensor_map._library.cache_clear()
        with pytest.raises(Unavailable, match="^tensor maps: .*(libnowhere|undefined symbol: cuTensorMapEncodeTiled)"):
            encoded(SOUND)
    tensor_map._library.cache_clear()


def swizzled(offset: int, span: int) -> int:
    """The place of a box's byte in shared memory (PTX ISA, swizzling modes)."""
    return offset ^ (((offset >> 7) & (span // 16 - 1)) << 4) if span else offset


def boxed(array: Any, map: Tiled, corner: tuple[int, int]) -> Any:
    """Shared memory after the copy, by NumPy: zeros outside of the array, pieces in their places."""
    found = np.zeros(map.box[::-1], array.dtype)
    for row, column in itertools.product(range(map.box[1]), range(map.box[0])):
        y, x = corner[1] + row, corner[0] + column
        if 0 <= y < array.shape[0] and 0 <= x < array.shape[1]:
            found[row, column] = array[y, x]
    memory = np.zeros(map.nbytes, np.uint8)
    memory[[swizzled(offset, map.swizzle) for offset in range(map.nbytes)]] = found.view(np.uint8).ravel()
    return memory


def test_swizzled_places_are_a_permutation_within_their_span() -> None:
    for span in (32, 64, 128):
        places = [swizzled(offset, span) for offset in range(2048)]
        assert sorted(places) == [*range(2048)]
        assert all(place // span == offset // span for offset, place in enumerate(places))
    assert swizzled(128, 128) == 144 and swizzled(7 * 128 + 16, 128) == 7 * 128 + 96 and swizzled(128, 32) == 144


@pytest.mark.skipif("not torch.cuda.is_available()", reason="NO GPU: NO BOX IS COPIED")
@pytest.mark.parametrize("corner", [(0, 0), (40, 61), (-5, -3), (1000, 1000)])
@pytest.mark.parametrize(
    ("kind", "box", "swizzle"),
    [("float16", (64, 8), 128), ("uint8", (64, 16), 64), ("float32", (8, 32), 32), ("float32", (20, 5), 0)],
)
def test_a_box_is_copied(kind: str, box: tuple[int, int], swizzle: int, corner: tuple[int, int]) -> None:
    device = torch.device("cuda", 0)
    if target_of(device).capability < (9, 0):
        pytest.skip("THE GPU HAS NO TENSOR MEMORY ACCELERATOR")
    array = np.random.default_rng(1).integers(0, 100, (70, 96)).astype(kind)
    there = torch.from_numpy(array).to(device)
    map = Tiled(there.data_ptr(), kind, (96, 70), (array.strides[0],), box, swizzle)
    out = torch.zeros(map.nbytes, dtype=torch.uint8, device=device)
    numbers = [np.int32(number) for number in (map.nbytes, *corner)]
    struct = parameters(structure(("map", MAP)), map=encoded(map))
    enqueue(Launch(COPY_BOX, (1, 1, 1), 128, map.nbytes + 16, (struct, *addresses(out), *numbers)), device)
    assert np.array_equal(out.cpu().numpy(), boxed(array, map, corner))


@pytest.mark.skipif("not torch.cuda.is_available()", reason="NO GPU: NO DRIVER REFUSES A MAP")
def test_the_driver_itself_refuses_unaligned_maps() -> None:
    torch.cuda.init()
    wrong = replace(SOUND)
    object.__setattr__(wrong, "address", 4104)
    with pytest.raises(OSError, match=r"CUDA_ERROR_INVALID_VALUE \(1\): Tiled\(address=4104"):
        encoded(wrong)

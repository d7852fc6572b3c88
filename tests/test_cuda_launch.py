"""Launches are data that can be inspected without a GPU; on a GPU they run in the order of torch's streams."""

import re
import subprocess
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cuda_sources import device_target, faults, host_compiler
from launch import ROOT

from hpcai.kernels.cuda import launch as launching
from hpcai.kernels.cuda.architecture import PTX, Target
from hpcai.kernels.cuda.compiler import compiled, supported
from hpcai.kernels.cuda.launch import Launch, Program, addresses, enqueue, keeping, parameters, ready, structure
from hpcai.kernels.cuda.tensor_map import MAP

SOURCE = str(ROOT / "tests" / "cuda_launches.cu")
ADD_SCALED, REVERSE = Program(SOURCE, "add_scaled"), Program(SOURCE, "reverse")
SCALE = structure(("factor", np.float32), ("first", np.int64))
NEEDS_GPU = pytest.mark.skipif("not torch.cuda.is_available()", reason="NO GPU: NOTHING IS LAUNCHED")

LAYOUT = """
#include <cstddef>
struct alignas(64) Map { unsigned char bytes[128]; };
struct Pair { int count; double scale; };
struct Mapped { short tag; Map map; };
struct Made { char tag; Pair pairs[2]; Map first; int sizes[3]; Mapped second; short last; };
static_assert(offsetof(Made, tag) == %d && offsetof(Made, pairs) == %d && offsetof(Made, first) == %d, "");
static_assert(offsetof(Made, sizes) == %d && offsetof(Made, second) == %d && offsetof(Made, last) == %d, "");
static_assert(sizeof(Made) == %d, "");
"""
PAIR, MAPPED = structure(("count", "i4"), ("scale", "f8")), structure(("tag", "i2"), ("map", MAP))
MADE = structure(
    *(("tag", "i1"), ("pairs", (PAIR, 2)), ("first", MAP), ("sizes", ("i4", 3)), ("second", MAPPED), ("last", "i2"))
)


@pytest.mark.parametrize("moved", [0, 1])
def test_structs_have_the_compilers_layout(tmp_path: Path, moved: int) -> None:
    names = MADE.names or ()
    places = [MADE.fields[name][1] for name in names] + [MADE.itemsize + moved]
    (tmp_path / "layout.cpp").write_text(LAYOUT % tuple(places))
    command = [host_compiler("launch"), "-std=c++17", "-fsyntax-only", "-Wno-invalid-offsetof", tmp_path / "layout.cpp"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert (ended.returncode == 0) == (not moved), ended.stderr


def test_structs_are_filled_and_aligned_for_tensor_maps() -> None:
    values = {"pairs": [(7, 2.5), (8, 3.5)], "sizes": (1, 2, 3), "second": (4, np.arange(128))}
    for struct in [parameters(MADE, **values) for _ in range(5)]:
        assert struct.shape == (1,) and struct.ctypes.data % 64 == 0
        assert struct["pairs"]["scale"].tolist() == [[2.5, 3.5]] and struct["sizes"].tolist() == [[1, 2, 3]]
        assert np.array_equal(struct["second"]["map"][0], np.arange(128))
        assert struct["last"] == 0 and not struct["first"].any()
    with pytest.raises(ValueError, match="no field of name"):
        parameters(MADE, third=1)


@pytest.mark.parametrize("wrong", [3, 2.5, None, np.zeros(2), torch.zeros(1)])
def test_arguments_of_the_wrong_size_are_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"cuda_launches.cu: argument 1 is <class .*allowed: NumPy scalar, struct"):
        Launch(ADD_SCALED, (1, 1, 1), 32, 0, (np.int32(3), wrong))


def test_the_kernels_of_these_tests_compile() -> None:
    target = device_target("sm_90a")
    for definitions in ((), (("TENSOR_MAPS", 1),)):
        made = compiled(Program(SOURCE, "reverse", definitions), target)
        assert not faults(made) and ("copy_box" in made.usage) == bool(definitions)


@pytest.fixture
def device() -> torch.device:
    return torch.device("cuda", 0)


def scaled(x: torch.Tensor, y: torch.Tensor, factor: float, first: int = 0) -> Launch:
    """y += factor * x, from `first` on."""
    given = (*addresses(x, y), parameters(SCALE, factor=factor, first=first), np.int32(len(x)))
    return Launch(ADD_SCALED, (-(-len(x) // 256), 1, 1), 256, 0, given)


def test_tensors_are_kept_alive_while_a_launch_has_their_addresses() -> None:
    tensor, called = torch.zeros(3), []
    alive, call = weakref.ref(tensor), keeping(lambda: called.append(1), tensor)
    del tensor
    call()
    assert alive() is not None and called == [1]
    del call
    assert alive() is None


@NEEDS_GPU
def test_a_kernel_runs_on_torchs_memory_in_the_order_of_its_stream(device: torch.device) -> None:
    x, y = torch.arange(1000.0, device=device), torch.zeros(1000, device=device)
    enqueue(scaled(x, y, 0), device)  # loading a kernel may wait
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        torch.cuda._sleep(10**8)
        y.fill_(1)
        enqueue(scaled(x, y, 2, first=10), device)
        assert not stream.query()  # the call did not wait
        enqueue(scaled(x, y, 3), device)
    stream.synchronize()
    assert torch.equal(y, 1 + 3 * x + torch.where(x < 10, 0, 2 * x))


@NEEDS_GPU
def test_a_kernel_is_loaded_once_and_can_be_prepared(device: torch.device) -> None:
    x, y = torch.ones(300, device=device), torch.zeros(300, device=device)
    again = ready(scaled(x, y, 1), device)
    loaded = launching._module.cache_info().misses
    for _ in range(10):
        again()
        enqueue(scaled(x, y, 1), device)
    assert torch.equal(y, 20 * x)
    assert launching._module.cache_info().misses == loaded


@NEEDS_GPU
@pytest.mark.parametrize("nbytes", [400, 160 * 1024, 48 * 1024, 49 * 1024])
def test_shared_memory_above_48_kib_is_permitted(device: torch.device, nbytes: int) -> None:
    if nbytes > torch.cuda.get_device_properties(device).shared_memory_per_block_optin:
        pytest.skip("THE GPU HAS LESS SHARED MEMORY")
    words = torch.arange(nbytes // 4, dtype=torch.int32, device=device)
    enqueue(Launch(REVERSE, (1, 1, 1), 256, nbytes, (*addresses(words), np.int32(len(words)))), device)
    assert torch.equal(words.flip(0), torch.arange(nbytes // 4, dtype=torch.int32, device=device))


@NEEDS_GPU
def test_a_launch_is_captured_in_graphs(device: torch.device) -> None:
    x, y = torch.ones(300, device=device), torch.zeros(300, device=device)
    enqueue(scaled(x, y, 1), device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        enqueue(scaled(x, y, 2), device)
    for _ in range(3):
        graph.replay()
    assert torch.equal(y, 7 * x)


@NEEDS_GPU
def test_products_and_sums_are_fused_only_if_allowed(device: torch.device) -> None:
    x, y = torch.full((1,), 1 + 2**-12, device=device), torch.full((1,), -1 - 2**-11, device=device)
    for joined, expected in ((True, 2**-24), (False, 0.0)):
        program = Program(SOURCE, "add_scaled", fused_multiply_add=joined)
        result, scale = y.clone(), parameters(SCALE, factor=1 + 2**-12)
        enqueue(Launch(program, (1, 1, 1), 32, 0, (*addresses(x, result), scale, np.int32(1))), device)
        assert result.item() == expected


@NEEDS_GPU
def test_ptx_is_translated_by_the_driver(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    major, minor = torch.cuda.get_device_capability(device)
    known = max(each for each in supported() if each <= 10 * major + minor)
    monkeypatch.setattr(launching, "target_of", lambda device: Target(f"compute_{known}", PTX, (major, minor)))
    program = Program(SOURCE, "reverse", (("ONLY_HERE", 1),))
    words = torch.arange(77, dtype=torch.int32, device=device)
    enqueue(Launch(program, (1, 1, 1), 32, 308, (*addresses(words), np.int32(77))), device)
    assert torch.equal(words.flip(0), torch.arange(77, dtype=torch.int32, device=device))


@NEEDS_GPU
def test_a_gpu_has_a_target(device: torch.device) -> None:
    major, minor = torch.cuda.get_device_capability(device)
    assert re.fullmatch(rf"sm_{major}{minor}a?|compute_\d+", launching.target_of(device).name)

"""Non-maximum suppression: every backend keeps the boxes of the reference, and the reference keeps the right ones."""

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cuda_on_host import SCHEDULES, planted, run
from hypothesis import given
from hypothesis import strategies as st
from sampled_parameters import one_in

from hpcai.kernels import nms
from hpcai.kernels.cuda.program import Program
from hpcai.kernels.nms import cupy_gpu, numba_cpu, reference

ABSENT = -np.inf
UNIT = [0.0, 0.0, 4.0, 4.0]


def drawn(frames: int, count: int, seed: int = 0, groups: int = 2) -> tuple[Any, Any, Any]:
    """Boxes on a coarse grid, some without area or inverted; scores with ties, some of absent boxes."""
    random = np.random.default_rng(seed)
    corner = random.integers(0, 24, (frames, count, 2))
    boxes = np.concatenate([corner, corner + random.integers(-1, 10, (frames, count, 2))], 2).astype(np.float32)
    boxes[:, ::3] += random.random((frames, len(range(0, count, 3)), 4), np.float32)
    scores = (random.integers(0, 8, (frames, count)) / 8).astype(np.float32)
    scores[random.random(scores.shape) < 0.1] = ABSENT
    scores[random.random(scores.shape) < 0.02] = np.nan
    return boxes, scores, random.integers(0, groups, (frames, count)).astype(np.int32)


def alike(boxes: list[list[float]], scores: list[float], groups: list[int] | None = None) -> tuple[Any, Any, Any]:
    """One frame."""
    own = np.array([groups or [0] * len(scores)], np.int32)
    return np.array([boxes], np.float32).reshape(1, -1, 4), np.array([scores], np.float32), own


CASES = {
    "many": (*drawn(3, 200), 0.3, 200),
    "few are wanted": (*drawn(3, 200, 1), 0.6, 7),
    "a word of a mask": (*drawn(2, 64, 2), 0.5, 64),
    "one more": (*drawn(2, 65, 3, 1), 0.5, 70),
    "one fewer": (*drawn(2, 63, 4, 3), 0.0, 63),
    "one": (*alike([UNIT], [0.5]), 0.5, 3),
    "none": (*drawn(2, 0), 0.5, 3),
    "no frames": (*drawn(0, 5), 0.5, 3),
    "none is wanted": (*drawn(2, 5), 0.5, 0),
    "none is there": (*alike([UNIT] * 3, [ABSENT, ABSENT, np.nan]), 0.5, 3),
    "all are the same": (*alike([UNIT] * 130, [0.5] * 130), 0.5, 130),
    "all apart": (*drawn(2, 130, 5, 10**6), 0.5, 130),
    "nothing suppresses": (*drawn(2, 100, 6), 1.0, 100),
    "scores are infinite": (*alike([UNIT, [9, 9, 10, 10], UNIT], [1.0, np.inf, np.inf]), 0.5, 3),
}


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("name", CASES)
def test_numba_keeps_the_boxes_of_the_reference(name: str, threads: int) -> None:
    found = numba_cpu.nms(*CASES[name], threads=threads)
    assert found.dtype == np.int32 and np.array_equal(found, reference.nms(*CASES[name]))


THRESHOLDS = st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 0.7, 1.0])


@given(st.integers(0, 2**32), st.integers(0, 40), THRESHOLDS, st.integers(0, 40))
def test_numba_keeps_the_boxes_of_the_reference_in_any_case(seed: int, count: int, threshold: float, most: int) -> None:
    case = (*drawn(2, count, seed), threshold, most)
    assert np.array_equal(numba_cpu.nms(*case), reference.nms(*case))


def by_cuda(name: str, schedule: str, faulty: dict[str, ctypes.CDLL] | None = None) -> Any:
    """The boxes that the kernels keep, run on the host; the kernels named in `faulty` are replaced."""
    boxes, scores, groups, threshold, most = CASES[name]
    frames, count = scores.shape
    ordered, order = torch.sort(torch.from_numpy(np.fmax(scores, ABSENT)), dim=1, descending=True, stable=True)
    masks, found = np.zeros((frames, count, -(-count // 64)), np.uint64), np.full((frames, most), 77, np.int32)
    memory = [boxes, groups, order.numpy(), ordered.numpy(), masks, found]
    assert all(array.flags.c_contiguous for array in memory)
    places = tuple(np.uint64(array.ctypes.data) for array in memory)
    for launch in cupy_gpu.launches(places, frames, count, most, threshold):
        run(launch, schedule, (faulty or {}).get(launch.program.name))
    return found


LAUNCHED = [name for name, case in CASES.items() if case[1].size and case[4]]  # as in cupy_gpu.py


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", LAUNCHED)
def test_the_cuda_kernels_run_on_the_host_keep_the_boxes_of_the_reference(name: str, schedule: str) -> None:
    assert np.array_equal(by_cuda(name, schedule), reference.nms(*CASES[name]))


BARRIER = "sync_block();"
FAULTS = [(cupy_gpu.COMPARE, BARRIER, "", 0), *((cupy_gpu.SCAN, BARRIER, "", place) for place in (1, 2))]
FAULTS += [
    (cupy_gpu.COMPARE, "> place", "> place + 1", 0),
    (cupy_gpu.SCAN, "kept - chosen", "kept - chosen - 1", 0),
    (cupy_gpu.SCAN, "later = word + 1", "later = word + 2", 0),
]


@pytest.mark.parametrize(("program", "right", "wrong", "place"), one_in(3, FAULTS))
def test_a_fault_of_the_cuda_kernels_is_detected(
    program: Program, right: str, wrong: str, place: int, tmp_path: Path
) -> None:
    faulty = {program.name: planted(program, tmp_path, right, wrong, place)}
    tried = [(name, schedule) for name in ("many", "few are wanted") for schedule in SCHEDULES]
    same = [np.array_equal(by_cuda(*each, faulty), reference.nms(*CASES[each[0]])) for each in tried]
    assert not all(same)


@pytest.mark.skipif("not torch.cuda.is_available()", reason="NO GPU: nms.cu NOT RUN ON A DEVICE")
@pytest.mark.parametrize("name", CASES)
def test_the_gpu_keeps_the_boxes_of_the_reference(name: str) -> None:
    boxes, scores, groups, threshold, most = CASES[name]
    with torch.cuda.stream(torch.cuda.Stream()):
        given = [torch.from_numpy(array).cuda() for array in (boxes, scores, groups)]
        found = cupy_gpu.nms(*given, threshold, most)
        assert np.array_equal(found.cpu().numpy(), reference.nms(*CASES[name]))


def test_the_first_of_equal_scores_is_kept() -> None:
    case = (*alike([UNIT, UNIT, [0, 0, 4, 3]], [0.5, 0.5, 0.6]), 0.5, 3)
    assert reference.nms(*case).tolist() == [[2, -1, -1]]
    assert reference.nms(*case[:3], 0.75, 3).tolist() == [[2, 0, -1]]


def test_an_overlap_of_just_the_threshold_does_not_suppress() -> None:
    half = [[0, 0, 4, 4], [0, 0, 4, 2]]  # their overlap is 8 of 16
    for threshold, expected in ((0.5, [0, 1]), (np.nextafter(0.5, 0), [0, -1])):
        for backend in (reference.nms, numba_cpu.nms):
            assert backend(*alike(half, [0.9, 0.8]), threshold, 2).tolist() == [expected]


def test_suppressed_boxes_suppress_nothing() -> None:
    row = [[0, 0, 4, 4], [0, 1, 4, 5], [0, 2, 4, 6]]  # neighbours overlap by 3/5, the first and the last by 1/3
    for backend in (reference.nms, numba_cpu.nms):
        assert backend(*alike(row, [0.9, 0.8, 0.7]), 0.5, 3).tolist() == [[0, 2, -1]]


def test_groups_are_independent() -> None:
    case = alike([UNIT] * 4, [0.1, 0.2, 0.3, 0.4], [0, 5, 0, 5])
    for backend in (reference.nms, numba_cpu.nms):
        assert backend(*case, 0.5, 4).tolist() == [[3, 2, -1, -1]]


@pytest.mark.parametrize("changed", [(0, (2, 5, 5)), (0, (2, 4, 4)), (1, (1, 5)), (2, (2, 5, 1)), (3, 1.5), (4, -1)])
def test_arguments_of_wrong_sizes_are_refused(changed: tuple[int, Any]) -> None:
    case: list[Any] = [(2, 5, 4), (2, 5), (2, 5), 0.5, 3]
    nms.check(*case)
    case[changed[0]] = changed[1]
    with pytest.raises(ValueError, match="do not fit together|is not within"):
        nms.check(*case)


def test_operations_and_bytes_by_hand() -> None:
    """Three boxes of which two may be kept: pairs 2 + 1."""
    shape = nms.Shape(2, 3, 2)
    assert nms.SPEC.operations(shape) == 2 * (5 * 3 + 13 * 3)
    assert nms.SPEC.nbytes(shape) == 2 * (3 * (16 + 4 + 4) + 2 * 4)
    assert nms.SPEC.tolerance(1000) == 0.0

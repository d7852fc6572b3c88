"""The whole program on GPUs: features that no CPU can show. A skipped test names what is missing."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from launch import BENCH, ROOT, mpirun, run_job
from small_run import INPUT, bench

from hpcai.data import transfer
from hpcai.estimate.memory import BATCHES_BEHIND
from hpcai.machine import cuda_driver, device
from hpcai.verification import verify

GPUS = len(cuda_driver.identities() or ())
ALONE = ["--set", "GROUPS=1", "DEGREE=1"]


def needs(gpus: int, what: str) -> pytest.MarkDecorator:
    there = device.accelerators() >= gpus and mpirun() is not None
    return pytest.mark.skipif(not there, reason=f"NO {'GPU' if gpus == 1 else f'{gpus} GPUs'}: {what}")


def test_the_plan_counts_the_batches_that_may_be_on_a_gpu() -> None:
    assert BATCHES_BEHIND == transfer._LEAD


OPTIONS = ([], ["PRECISION=fp32,bf16,fp16,halffp16"], ["COMPILE=graphs"], ["DATASET=generated"])


@needs(1, "NOTHING TRAINED ON ONE")
@pytest.mark.parametrize("options", OPTIONS)
def test_a_run_on_a_gpu_passes_and_verifies(options: list[str]) -> None:
    run = bench([str(INPUT), *ALONE, *options], None)
    environment, tests = run.result["environment"], run.result["tests"]
    assert run.job.returncode == 0 and not verify.differences(run.folder / "result.json")
    assert environment["accelerators"] == 1 and environment["device"] == torch.cuda.get_device_name(0)
    assert "unknown" not in environment["packages"].values() and not environment["warnings"]
    for test in tests:
        used, seen = test["memory"], test["telemetry"]
        assert 0 < used["device_peak_bytes"] <= used["planned_bytes"]
        assert not device.whole(torch.device("cuda", 0)) or seen["average"]["gpus"] is not None


@needs(1, "NO RANKS COMPETED FOR ONE")
def test_more_ranks_than_gpus_are_refused(tmp_path: Path) -> None:
    shown = {device.VISIBLE: (cuda_driver.identities() or ("",))[0]}
    job = run_job([BENCH, INPUT], 2, tmp_path, env=shown)
    assert (job.returncode, job.stdout) == (2, "") and not list(tmp_path.iterdir())
    assert f"ranks 0-1 would share {shown[device.VISIBLE]}" in job.stderr


@needs(2, "NCCL NOT USED")
def test_two_ranks_average_by_nccl_and_its_messages_are_not_in_the_report(tmp_path: Path) -> None:
    run = run_job([BENCH, INPUT, "--set", "GROUPS=1,2", "DEGREE=2,1"], 2, tmp_path, env={"NCCL_DEBUG": "INFO"})
    assert run.returncode == 0, run.stderr
    assert "backend nccl" in run.stdout and "NCCL INFO" in run.stderr and "NCCL INFO" not in run.stdout


@needs(2, "NO RANK FAILED WHILE ANOTHER WAITED IN NCCL")
def test_a_failing_rank_ends_one_that_waits_in_nccl(tmp_path: Path) -> None:
    planted = [ROOT / "tests/jobs/failing.py", "1", "training", "3", "raise"]
    job = run_job([*planted, INPUT, "--set", "GROUPS=1", "DEGREE=2"], 2, tmp_path, timeout=120)
    assert job.returncode != 0 and job.seconds < 60 and not job.leftovers
    assert "rank 1 on " in job.stderr and "raised RuntimeError: a fault of this rank" in job.stderr


# Every function that might use another GPU, on the second one; then whether the first has a context.
SECOND = """
import ctypes
import numpy as np
import torch
from hpcai.data.generated_images import open_generated
from hpcai.data.image_loader import Loader
from hpcai.machine import device as devices
from hpcai.models.detection.regions import nms, roi_align

device = devices.take(1)
devices.prepare(device, 1)
data = open_generated(64, 2, 8)
for split in (data.train, data.validation):
    for x, y, indices in Loader(split, device, data.mean, data.std, batch=8)([np.arange(8)] * 6):
        weights = torch.ones(4, 3, 3, 3, device=device, requires_grad=True)
        torch.nn.functional.conv2d(x, weights).sum().backward()
boxes = torch.rand(1, 8, 4, device=device)
nms(boxes, boxes[..., 0], boxes[..., 0], 0.5, 4)
features = torch.rand(1, 4, 8, 8, device=device, requires_grad=True)
roi_align([features], boxes, torch.zeros(1, 8, device=device), (1.0,), 2, 2).sum().backward()
print(devices.free_memory(device) > 0, devices.peak_memory(device) > 0, torch.cuda.current_device())
flags, active = ctypes.c_uint(), ctypes.c_int(-1)
assert ctypes.CDLL("libcuda.so.1").cuDevicePrimaryCtxGetState(0, ctypes.byref(flags), ctypes.byref(active)) == 0
print("contexts on the first GPU:", active.value)
"""


@needs(2, "CONTEXTS ON GPUs OF OTHER RANKS NOT LOOKED FOR")
def test_a_rank_uses_only_its_own_gpu() -> None:
    job = subprocess.run([sys.executable, "-c", SECOND], cwd=ROOT, capture_output=True, text=True, check=False)
    assert job.stdout.splitlines() == ["True True 1", "contexts on the first GPU: 0"], job.stderr


@needs(1, "HOW FAR A CALLER GETS AHEAD OF IT NOT SEEN")
def test_a_caller_is_a_limited_number_of_batches_ahead_of_a_slow_gpu() -> None:
    import numpy as np

    own, seen = device.first(), []
    way = transfer.transfer_to(own, 4)
    images, labels = np.zeros((4, 3, 8, 8), np.uint8), np.arange(4)
    batches: Any = (way.stage(images, labels, labels) for _ in range(20))
    while way.receive(batches) is not None:
        torch.cuda._sleep(10**8)
        seen.append(sum(not there.query() for _, there in way._waits))  # type: ignore[attr-defined]
    assert max(seen) == transfer._LEAD


@needs(1, "CALLS NOT TIMED BY ITS OWN CLOCK")
def test_calls_are_timed_by_the_gpus_own_clock() -> None:
    """A long product takes as long as by the host's clock; a short one less time than its launch."""
    from hpcai.preflight.block_timing import LEAST, Rotation, block, stretch

    own = device.first()
    large, small = torch.rand(8192, 8192, device=own), torch.rand(64, 64, device=own)
    long, short = Rotation((lambda: torch.mm(large, large),)), Rotation((lambda: torch.mm(small, small),))
    by_events, by_clock = block(long, own, LEAST), min(stretch(long, 5, own) / 5 for _ in range(3))
    assert by_events == pytest.approx(by_clock, rel=0.2)
    assert 0 < block(short, own, LEAST) < 1e-4

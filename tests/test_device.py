"""The device of a rank, and that torch does what it was told."""

import subprocess
import sys

import pytest
import torch

from hpcai.machine import device

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_every_rank_computes_on_the_cpu() -> None:
    assert device.accelerators() == 0
    assert {device.own(node_rank) for node_rank in range(5)} == {torch.device("cpu")}


def test_gpus_are_dealt_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    current: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    assert [device.own(node_rank).index for node_rank in range(7)] == [0, 1, 2, 0, 1, 2, 0]
    assert [made.index for made in current] == [0, 1, 2, 0, 1, 2, 0]


def test_the_cpu_has_a_name() -> None:
    assert device.name(torch.device("cpu")) == device.identity(torch.device("cpu")) == "cpu"


@needs_gpu
def test_a_gpu_has_a_name_and_an_identity_of_its_own() -> None:
    gpus = [torch.device("cuda", index) for index in range(device.accelerators())]
    assert all(device.name(gpu) for gpu in gpus)
    assert len({device.identity(gpu) for gpu in gpus}) == len(gpus)


PREPARED = """
import torch
from hpcai.machine import device
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
device.prepare(torch.device("cpu"), 3)
print(torch.get_num_threads(), torch.get_num_interop_threads())
print(torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark)
torch.randn(64, 64) @ torch.randn(64, 64)
print(torch.get_num_threads())
"""


def test_threads_and_precision_are_those_asked_for() -> None:
    finished = subprocess.run([sys.executable, "-c", PREPARED], capture_output=True, text=True, check=True)
    assert finished.stdout.split("\n") == ["3 1", "False False False", "3", ""]

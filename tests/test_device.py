"""The device of a rank, and torch's settings on it."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from hpcai.errors import LaunchError
from hpcai.machine import cuda_driver, device

needs_gpu = pytest.mark.skipif(device.accelerators() == 0, reason="NO GPU: ITS NAME AND IDENTITY NOT ASKED")
BOTH = ("GPU-first", "MIG-part")


def simulate(
    patch: pytest.MonkeyPatch, folder: Path, counted: int, identities: tuple[str, ...] | None, files: int = 2
) -> None:
    """A node with files of `files` GPUs, some counted by NVML, some listed by the driver; torch is built for CUDA."""
    for number in range(files):
        (folder / f"nvidia{number}").touch()
    (folder / "nvidiactl").touch()
    patch.setattr(device, "NODES", folder)
    patch.setattr(cuda_driver, "identities", lambda: identities)
    patch.setattr(torch.cuda, "device_count", lambda: counted)
    patch.setattr(torch.version, "cuda", "13.0")
    patch.delenv(device.VISIBLE, raising=False)


@pytest.mark.skipif(device.accelerators() > 0, reason="there is a GPU")
def test_without_a_gpu_everything_is_on_the_cpu() -> None:
    assert device.visible() == () and device.first() == torch.device("cpu")
    assert not device.unused() or device.devices_of_node()


def test_gpus_are_those_that_the_driver_lists(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """NVML counts whole GPUs, of which a process may be limited to one instance."""
    simulate(monkeypatch, tmp_path, 3, BOTH)
    assert (device.visible(), device.accelerators(), device.devices_of_node()) == (BOTH, 2, 2)
    found = [torch.device("cuda", number) for number in range(2)]
    assert [device.identity(each) for each in found] == [*BOTH]
    assert [device.whole(each) for each in (*found, torch.device("cpu"))] == [True, False, False]
    assert not device.unused()


@pytest.mark.parametrize("identities", [None, ()])
def test_a_driver_that_does_not_start_is_refused(
    identities: tuple[str, ...] | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    simulate(monkeypatch, tmp_path, 2, identities)
    with pytest.raises(LaunchError, match=r"driver does not start.*CUDA 13\.0.*CUDA_VISIBLE_DEVICES= to compute on"):
        device.visible()


@pytest.mark.parametrize("named", ["GPU-vanished", "MIG-vanished", "7", "banana"])
def test_named_gpus_that_are_missing_are_refused(
    named: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    simulate(monkeypatch, tmp_path, 0, ())
    monkeypatch.setenv(device.VISIBLE, named)
    with pytest.raises(LaunchError, match=f"CUDA_VISIBLE_DEVICES={named} names none of the 2 GPUs here"):
        device.visible()


@pytest.mark.parametrize("named", ["", " ", "-1", "-1,0", "NoDevFiles"])
def test_gpus_can_be_hidden(named: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    simulate(monkeypatch, tmp_path, 0, ())
    monkeypatch.setenv(device.VISIBLE, named)
    assert device.visible() == () and device.hidden() and not device.unused()


def test_a_name_on_a_node_without_gpus_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    simulate(monkeypatch, tmp_path, 0, (), files=0)
    monkeypatch.setenv(device.VISIBLE, "0")
    assert device.visible() == () and not device.unused()


def test_unused_gpus_are_detected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A job without GPUs on a node that has some, or a torch that is built for CPUs."""
    simulate(monkeypatch, tmp_path, 0, BOTH)
    assert device.visible() == () and not device.hidden() and device.unused()


@pytest.mark.skipif(device.accelerators() > 0, reason="there is a GPU")
def test_a_busy_gpu_is_refused_with_torchs_message(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def busy(chosen: torch.device) -> None:
        raise RuntimeError("CUDA error: all devices are busy\nand much more")

    simulate(monkeypatch, tmp_path, 2, BOTH)
    monkeypatch.setattr(torch.cuda, "set_device", busy)
    with pytest.raises(LaunchError, match="MIG-part cannot be used: CUDA error: all devices are busy; allowed"):
        device.take(1)


def test_the_cpu_has_a_name() -> None:
    assert device.name(torch.device("cpu")) == device.identity(torch.device("cpu")) == "cpu"


def test_versions_of_a_gpus_libraries_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert device.libraries(torch.device("cpu")) == {}
    monkeypatch.setattr(torch.cuda.nccl, "version", lambda: (2, 27, 5))
    monkeypatch.setattr(device.distributed, "is_nccl_available", lambda: True)
    found = device.libraries(torch.device("cuda", 0))
    assert list(found) == ["driver", "CUDA", "cuDNN", "CuPy", "NCCL"] and found["NCCL"] == "2.27.5"
    assert all(found.values()) and (torch.version.cuda or found["CUDA"] == found["cuDNN"] == "unknown")


@needs_gpu
def test_each_gpu_has_a_name_and_a_different_identity() -> None:
    gpus = [torch.device("cuda", index) for index in range(device.accelerators())]
    assert len(gpus) == torch.cuda.device_count()
    assert all(device.name(gpu) for gpu in gpus)
    assert len({device.identity(gpu) for gpu in gpus}) == len(gpus)
    if all(map(device.whole, gpus)):
        uuids = [str(torch.cuda.get_device_properties(gpu).uuid) for gpu in gpus]
        assert [device.identity(gpu) for gpu in gpus] == [f"GPU-{uuid}" for uuid in uuids]


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


@pytest.mark.slow
def test_threads_and_precision_are_set() -> None:
    finished = subprocess.run([sys.executable, "-c", PREPARED], capture_output=True, text=True, check=True)
    assert finished.stdout.split("\n") == ["3 1", "False False False", "3", ""]

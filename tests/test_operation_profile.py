"""The profiled stretch: every operator has its class, no time is lost, and the training is not affected."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from launch import ROOT
from msgspec import structs
from tiny import CLASSES as LABELS
from tiny import CPU, alone, bits, loader, training, unending
from torch.autograd import DeviceType

from hpcai.clock import Phases, now
from hpcai.data.image_dataset import ArraySplit
from hpcai.networks import build
from hpcai.train import operation_profile
from hpcai.train.loop import Training
from hpcai.train.operator_classes import CLASSES, operator_class
from hpcai.train.profiler import profiler

Event = Any
QUIETLY = """
from tiny import alone, training
from hpcai.train.operation_profile import operator_seconds
assert operator_seconds(training(alone()), True).convolution > 0
"""


@contextmanager
def events_noted(patch: pytest.MonkeyPatch) -> Iterator[list[Event]]:
    """The profiler's events behind the seconds by class."""
    events: list[Event] = []
    by_class = operation_profile.by_class

    def noting(found: Any, device: torch.device) -> Any:
        events.extend(found)
        return by_class(events, device)

    patch.setattr(operation_profile, "by_class", noting)
    yield events


def profiled(trained: Training, records: bool) -> dict[str, float]:
    """The profiled seconds by class."""
    return structs.asdict(operation_profile.operator_seconds(trained, records))


def unclassified(events: list[Event]) -> set[str]:
    return {event.key for event in events if operator_class(event.key) is None}


def of_network(name: str, side: int) -> Training:
    """A training of a real network on a few random images."""
    rounding_allowance = np.random.default_rng(3).integers(0, 256, (8, 3, side, side))
    trained = training(alone(), samples=8, graph=build(name, (side, side), 3, LABELS), batch=4)
    trained.loader = loader(ArraySplit(rounding_allowance.astype(np.uint8), np.arange(8) % LABELS), 4)
    trained.loader._scale, trained.loader._shift = (torch.full((3,), value) for value in (1 / 128, -1.0))
    return trained


def test_every_operator_of_the_networks_has_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiny network, one for small images, and one with the larger stem and its pooling."""
    for trained in (training(alone()), of_network("resnet8", 12), of_network("resnet18", 32)):
        with monkeypatch.context() as patch, events_noted(patch) as events:
            seconds = profiled(trained, True)
        names = {event.key for event in events}
        assert {"aten::convolution_backward", "aten::native_batch_norm", "aten::addmm", "AddmmBackward0"} <= names
        assert not unclassified(events)
        assert all(part > 0 for part in seconds.values())


def test_every_operator_of_a_detector_has_its_class() -> None:
    from rectangles import detector, fields

    module, (x, targets) = detector(), fields(2, 0)
    module(x, targets, 0).sum().backward()
    with profiler(CPU) as recorded:
        module(x, targets, 1).sum().backward()
    events = recorded.key_averages()
    assert "RoiAlignBackward" in {event.key for event in events}
    assert not unclassified(events)


@pytest.mark.parallel(2)
def test_a_group_profiles_on_one_rank_without_an_effect_on_any(monkeypatch: pytest.MonkeyPatch) -> None:
    from socket import gethostname

    from mpi4py import MPI

    from hpcai.comm.grid import split
    from hpcai.comm.rendezvous import process_group
    from hpcai.train.data_parallel import differs_from_others

    group = split(MPI.COMM_WORLD, 1, MPI.COMM_WORLD.size, "row")
    assert group is not None
    with process_group(group, gethostname(), CPU), events_noted(monkeypatch) as events:
        trained = training(group, samples=20 * group.degree)
        trained.warm_up()
        before = bits(trained.state.snapshot())
        exposed = trained.state.progress.exposed_seconds
        seconds = profiled(trained, group.leader)
        assert bits(trained.state.snapshot()) == before
        assert trained.state.progress.exposed_seconds == exposed
        assert (sum(seconds.values()) > 0) == bool(events) == group.leader
        assert not unclassified(events)
        trained.run(Phases(CPU), unending())
        assert not differs_from_others(trained.state.module, group)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::cudnn_convolution", "convolution"),
        ("autograd::engine::evaluate_function: ConvolutionBackward0", "convolution"),
        ("aten::addmm", "gemm"),
        ("MmBackward0", "gemm"),
        ("aten::relu_", "elementwise"),
        ("aten::threshold_backward", "elementwise"),
        ("AddBackward0", "elementwise"),
        ("aten::cudnn_batch_norm_backward", "normalisation"),
        ("CudnnBatchNormBackward0", "normalisation"),
        ("MaxPool2DWithIndicesBackward0", "other"),
        ("aten::_log_softmax_backward_data", "other"),
        ("aten::_fused_sgd_", "other"),
        ("Optimizer.step#SGD.step", "other"),
        ("c10d::allreduce_", "other"),
        ("torch::autograd::AccumulateGrad", "other"),
        ("aten::copy_", "other"),
        ("aten::_fft_c2r", None),
        ("FftC2RBackward0", None),
        ("", None),
    ],
)
def test_classes_of_operators(name: str, kind: str | None) -> None:
    assert operator_class(name) == kind


def event(key: str, cpu: float = 0.0, gpu: float = 0.0, kind: DeviceType = DeviceType.CPU) -> Event:
    """An event as the profiler sums it up; times are in microseconds."""
    return SimpleNamespace(key=key, device_type=kind, self_cpu_time_total=cpu * 1e6, self_device_time_total=gpu * 1e6)


EVENTS = [
    event("aten::conv2d", 1, 0),
    event("aten::cudnn_convolution", 2, 30),
    event("aten::addmm", 3, 5),
    event("aten::_fft_c2r", 4, 6),
    event("cudaLaunchKernel", 5, 0),
    event("sm90_xmma_fprop", 0, 30, DeviceType.CUDA),
    event("nccl:all_reduce", 0, 7, DeviceType.CUDA),
    event("aten::relu", 6, 8),
]


@pytest.mark.parametrize(("device", "seconds"), [("cpu", (3, 3, 6, 0, 9)), ("cuda", (30, 5, 8, 0, 6))])
def test_on_a_gpu_kernels_count_by_the_operators_that_launched_them(device: str, seconds: tuple[float, ...]) -> None:
    """Unknown operators are not lost; a kernel counts once."""
    found = operation_profile.by_class(EVENTS, torch.device(device))
    assert found == pytest.approx(dict(zip(CLASSES, seconds, strict=True)))


def test_no_time_is_lost_or_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = training(alone())
    trained.warm_up()
    with events_noted(monkeypatch) as events:
        begin = now()
        seconds = profiled(trained, True)
        wall = now() - begin
    assert sorted(seconds) == sorted(CLASSES)
    assert sum(seconds.values()) == pytest.approx(sum(event.self_cpu_time_total for event in events) * 1e-6)
    assert 0 < sum(seconds.values()) <= wall
    steps = next(event.count for event in events if event.key == "aten::addmm")
    assert steps == operation_profile.STEPS


def test_long_operations_appear_in_their_class() -> None:
    """Matrix products ten thousand times those of the network, planted into its steps."""
    trained, a = training(alone()), torch.ones(1000, 1000)
    plain = profiled(trained, True)
    trained.state.module.register_forward_hook(lambda *_: [torch.mm(a, a) for _ in range(20)] and None)
    heavy = profiled(trained, True)
    assert heavy["gemm"] > 0.5 * sum(heavy.values())
    assert heavy["gemm"] > 10 * plain["gemm"]


@pytest.mark.parametrize("records", [True, False])
def test_profiling_leaves_weights_and_later_steps_the_same_to_the_bit(records: bool) -> None:
    torch.manual_seed(5)
    watched, left_alone = training(alone()), training(alone())
    for trained in (watched, left_alone):
        trained.warm_up()
    profiled(watched, records)
    assert bits(watched.state.snapshot()) == bits(left_alone.state.snapshot())
    for trained in (watched, left_alone):
        torch.manual_seed(6)
        trained.run(Phases(CPU), unending())
    assert profiled(watched, records).keys() == set(CLASSES)
    assert bits(watched.state.snapshot()) == bits(left_alone.state.snapshot())


def test_an_epoch_of_one_step_is_enough() -> None:
    assert training(alone(), samples=8).shard.steps == 1
    assert sum(profiled(training(alone(), samples=8), True).values()) > 0


@pytest.mark.parametrize("way", ["layer by layer", "as one piece"])
def test_operators_are_profiled_however_the_network_is_compiled(way: str) -> None:
    trained = training(alone())
    execution, pieces = trained.execution, []
    if way == "as one piece":
        execution.replica = lambda images: (pieces.append(images), torch.zeros(len(images), LABELS))[1]
    replica = execution.replica
    assert profiled(trained, True)["convolution"] > 0
    assert execution.replica is replica and not pieces


@pytest.mark.slow
def test_profiling_prints_nothing() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KINETO")}
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    job = subprocess.run(
        [sys.executable, "-c", QUIETLY], env={**environment, "PYTHONPATH": paths}, capture_output=True, text=True
    )
    assert (job.returncode, job.stdout, job.stderr) == (0, "", "")

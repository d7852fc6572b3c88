"""Gradients averaged bucket by bucket: the right mean, overlapped with the backward pass, and timed."""

from collections.abc import Iterator
from contextlib import contextmanager
from socket import gethostname
from typing import TYPE_CHECKING, Any

import pytest
import torch

if TYPE_CHECKING:
    from hpcai.comm.grid import Group
    from hpcai.train.communication import Communication

SMALL = 0.0002  # MiB: some hundred bytes
Replica = tuple[torch.nn.Module, torch.nn.Module, "Communication"]  # module, replica, averaging


@contextmanager
def grouped() -> Iterator["Group"]:
    """All ranks as one group."""
    from mpi4py import MPI
    from tiny import CPU

    from hpcai.comm.grid import split
    from hpcai.comm.rendezvous import process_group

    group = split(MPI.COMM_WORLD, 1, MPI.COMM_WORLD.size, "row")
    assert group is not None
    with process_group(group, gethostname(), CPU):
        yield group


def replica(group: "Group", kind: torch.dtype = torch.float32) -> Replica:
    from tiny import CPU, GRAPH, SEED
    from tiny import communication as averaging

    from hpcai.models.module import build
    from hpcai.train.data_parallel import replicate

    module, communication = build(GRAPH, SEED).to(kind), averaging(group)
    return module, replicate(module, group, CPU, communication, SMALL), communication


def images(rank: int, kind: torch.dtype = torch.float32) -> torch.Tensor:
    from tiny import SHAPE

    return torch.randn(4, *SHAPE, generator=torch.Generator().manual_seed(rank)).to(kind)


def backward(network: torch.nn.Module, x: torch.Tensor) -> dict[str, torch.Tensor]:
    """Gradients after one backward pass."""
    network.zero_grad()
    network(x).float().square().sum().backward()
    return {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}


@pytest.mark.parallel(3)
def test_gradients_are_the_mean_over_the_ranks_also_in_16_bits() -> None:
    """Divided, then added: at most Q roundings of fp32; for a 16-bit mean one more, to 16 bits."""
    with grouped() as group:
        for kind, unit in ((torch.float32, 0.0), (torch.bfloat16, 2.0**-8)):
            module, network, communication = replica(group, kind)
            alone = [backward(module, images(rank, kind)) for rank in range(group.degree)]
            for _ in range(2):  # torch rearranges the buckets after the first
                found = backward(network, images(group.coordinates.member, kind))
            for name, gradient in zip(alone[0], found.values(), strict=True):
                parts = torch.stack([own[name].double() for own in alone])
                allowed = group.degree * 2.0**-23 * parts.abs().mean(0) + unit * parts.mean(0).abs()
                assert gradient.dtype == kind
                assert ((gradient.double() - parts.mean(0)).abs() <= allowed).all(), name
            assert (communication.buckets > 2) == (group.degree > 1)


@pytest.mark.parallel(2)
def test_gradients_of_two_ranks_equal_those_of_torchs_ddp_bit_for_bit() -> None:
    from copy import deepcopy

    from torch.nn.parallel import DistributedDataParallel

    with grouped() as group:
        module, network, _ = replica(group)
        own = DistributedDataParallel(deepcopy(module))
        found, expected = (backward(either, images(group.coordinates.member)) for either in (network, own))
        names = {name.removeprefix("module."): gradient for name, gradient in expected.items()}
        for name, gradient in found.items():
            same = torch.equal(gradient, names[name.removeprefix("module.")])
            assert same or group.degree > 2  # the division by two is exact, and so is the sum in any order


@pytest.mark.parallel(2)
def test_groups_can_be_created_and_freed_repeatedly() -> None:
    """Replicas are freed right after their last step, while gloo's threads may still use parts of it."""

    def train() -> None:
        with grouped() as group:
            _, network, _ = replica(group)
            backward(network, images(0))

    for _ in range(8):
        train()


@pytest.mark.parallel(2)
def test_the_first_buckets_are_sent_before_the_last_gradients_are_computed() -> None:
    with grouped() as group:
        module, network, communication = replica(group)
        backward(network, images(0))
        log: list[str] = []
        first_layer = next(module.parameters())
        first_layer.register_hook(lambda gradient: log.append("gradient of the first layer"))
        begin = communication._exposed.begin
        communication._exposed.begin = lambda: (log.append("bucket"), begin())  # type: ignore[method-assign]
        backward(network, images(0))
        log.append("end")
        sent_before = log.index("gradient of the first layer")
        if group.degree == 1:
            assert log == ["gradient of the first layer", "end"] and communication.exposed_seconds == 0
        else:
            assert log.count("bucket") == communication.buckets > 2
            assert log[:sent_before] == ["bucket"] * sent_before and sent_before >= communication.buckets - 1
            assert log[-2:] == ["bucket", "end"]


def test_exposed_time_is_that_between_the_last_bucket_and_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    from hpcai.comm import interval_timer

    readings = iter([1.0, 2.0, 5.0, 10.0, 10.5])
    monkeypatch.setattr(interval_timer, "now", lambda: next(readings))
    exposed = interval_timer.HostIntervalTimer()
    exposed.begin()
    exposed.begin()
    exposed.end()
    exposed.end()  # a backward pass without a bucket
    assert exposed.seconds == 3.0
    exposed.begin()
    exposed.end()
    assert exposed.seconds == 3.5


@pytest.mark.skipif(not torch.cuda.is_available(), reason="NO GPU: ITS EXPOSED COMMUNICATION NOT TIMED")
def test_exposed_time_on_a_gpu_is_measured_by_its_events() -> None:
    from hpcai.comm.interval_timer import CudaIntervalTimer

    device = torch.device("cuda", torch.cuda.current_device())
    exposed, x = CudaIntervalTimer(device), torch.ones(1 << 20, device=device)
    for _ in range(5):
        exposed.begin()
        for _ in range(50):
            x.mul_(1.0)
        exposed.end()
    assert exposed.seconds > 0 and len(exposed._free) <= 10
    before: Any = exposed.seconds
    exposed.end()
    assert exposed.seconds == before

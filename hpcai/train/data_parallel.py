"""Synchronous data parallelism within a group, and the checks of it: identical replicas and exact all-reduce."""

import hashlib
import warnings
from collections import ChainMap

import numpy as np
import torch
from mpi4py import MPI
from torch import nn

from hpcai.comm.channel_exchange import PackedExchange
from hpcai.comm.grid import Group
from hpcai.train.communication import Communication
from hpcai.train.replica import wrapped
from hpcai.train.tied_step import layer_of, tied_of

BLOCK = 1 << 20  # elements summed at a time
MOST_OF_OTHERS = 4096  # elements of a sum by another path than that of gradients
EXACT = 1 << 24  # largest integer sum checked by MPI
MOST = 30  # largest sum of the ranks' factors
SCRAMBLE = 2654435761  # 2^32 / golden ratio (Knuth, The Art of Computer Programming 3, section 6.4)


def replicate(
    module: nn.Module,
    group: Group,
    device: torch.device,
    communication: Communication,
    bucket_megabytes: float | None = None,
    compiled: bool = False,
) -> nn.Module:
    """The module wrapped for data-parallel training; `compiled`: it will be part of a program of torch's compiler.

    Gradients averaged over Q ranks, overlapped with the backward pass. Buckets fill in the order in which gradients are
    ready, last layers first. A full bucket is sent while the gradients of earlier layers are still computed.
    `bucket_megabytes` is the bucket size in MiB; the default is torch's: first 1 MiB, so that sending begins early,
    then 25 MiB (Li et al., PyTorch Distributed, 2020, section 5.3).
    """
    if group.divided.replicas == 1:
        return module
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # renamed in torch 2.13; torch 2.11 has only this name
        replica = wrapped(
            module,
            compiled,
            device_ids=[device] if device.type == "cuda" else None,
            broadcast_buffers=False,
            init_sync=group.divided.shards == 1,  # else every rank would get the first shard's weights
            bucket_cap_mb=bucket_megabytes,
            gradient_as_bucket_view=True,
        )
    communication.attach(replica)
    return replica


def average_statistics(module: nn.Module, group: Group) -> None:
    """Replace the running means and variances of batch norm by their average over the replicas of the model.

    Collective over the group.
    """
    buffers = [buffer for buffer in module.buffers() if buffer.is_floating_point()]
    if group.divided.replicas == 1 or not buffers:
        return
    flat = torch.cat([buffer.flatten() for buffer in buffers]).cpu()
    group.replicas.Allreduce(MPI.IN_PLACE, flat.numpy())
    flat /= group.divided.replicas
    for buffer, part in zip(buffers, flat.split([buffer.numel() for buffer in buffers]), strict=True):
        buffer.copy_(part.view_as(buffer))


def differs_from_others(module: nn.Module, group: Group) -> bool:
    """Whether any bit of this rank's parameters or statistics differs from those that another rank has as well.

    Each shard is compared with that of the first replica, replicated layers with those of the first shard, and tied
    weights with those of the first stage that has them. Collective over the group.
    """
    own, whole = hashlib.sha256(), hashlib.sha256()
    copies: dict[str, bytes] = {}
    for name, value in module.state_dict().items():
        content = value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
        own.update(content)
        if layer_of(name) in getattr(module, "replicated", ()):
            whole.update(content)
        if tied := tied_of(module).get(layer_of(name)):
            copies[tied.weights] = copies.get(tied.weights, b"") + hashlib.sha256(content).digest()
    as_first = group.replicas.bcast(own.digest()) == own.digest()
    firsts = ChainMap(*group.stages.allgather(copies))
    return not (group.shards.bcast(whole.digest()) == whole.digest() and as_first and firsts | copies == firsts)


def wrong_sums(group: Group, device: torch.device, communication: Communication, count: int) -> int:
    """All-reduce exactness.

    Wrong elements of integer sums over the group, by the gradients' path and by that of numbers of shards, and by MPI
    over all ranks. The test pattern of rank r at position p is a(p) * b(r), never 0, so the sum a(p) * (b(0) + b(1) +
    ...) is known without communication; b changes its sign every seven ranks, so that it is exact in the wire type.
    `count` is the number of gradients of a step, of this rank's part. Of a wire type that carries rounding errors,
    other numbers are summed as well: what is not in the sum must have been kept. Collective.
    """
    wrong = 0
    for start in range(0, count if group.divided.replicas > 1 else 0, BLOCK):
        positions = np.arange(start, min(start + BLOCK, count))
        wrong += _wrong_in_group(group, device, communication, positions)
        if communication.wire.carries:
            wrong += _neither_sent_nor_left(group, device, communication, positions)
    others = np.arange(min(group.active.allreduce(count, MPI.MAX), MOST_OF_OTHERS))  # parts differ in gradients
    if communication.exchange is not None:
        wrong += _wrong_over_shards(group, device, communication.exchange, others)
    return wrong + _wrong_in_mpi(group.active, others)


def _weight(rank: int) -> int:
    """3, 2, 3 to 7 for the first ranks, then -1 to -7, 1 to 7 and so on: no sum of the first is 0 or above MOST."""
    return 3 if rank == 0 else (1 + rank % 7) * (-1) ** (rank // 7)


def _total_weight(ranks: int) -> int:
    block, rest = divmod(ranks, 7)
    partial = rest * (rest + 1) // 2
    return 2 + (28 - partial if block % 2 else partial)


def _values(positions: np.ndarray, exact: int) -> np.ndarray:
    """Numbers from 1 on that follow no period, so that a misplaced part shows."""
    return 1 + (positions * SCRAMBLE % 2**32 >> 16) % min(65521, exact // MOST)


def _wrong_in_group(group: Group, device: torch.device, communication: Communication, positions: np.ndarray) -> int:
    values = _values(positions, communication.wire.exact)
    payload = torch.tensor(values * _weight(group.place.replica), dtype=torch.float32, device=device)
    total = communication.sum(payload)
    return int(np.count_nonzero(total.cpu().numpy() != values * _total_weight(group.divided.replicas)))


def _neither_sent_nor_left(
    group: Group, device: torch.device, communication: Communication, positions: np.ndarray
) -> int:
    """Wrong elements of the sum plus what rounding left on all ranks; of numbers that the wire type does not have.

    Whole numbers below 2^24 and steps of a power of two make all of it exact.
    """
    values = _values(positions, EXACT)
    payload = torch.tensor(values * _weight(group.place.replica), dtype=torch.float32, device=device)
    total, left = (part.double().cpu().numpy() for part in communication.sum_and_left(payload))
    everywhere = np.empty_like(left)
    group.replicas.Allreduce(left, everywhere)
    return int(np.count_nonzero(total + everywhere != values * _total_weight(group.divided.replicas)))


def _wrong_over_shards(group: Group, device: torch.device, exchange: PackedExchange, positions: np.ndarray) -> int:
    values = _values(positions, EXACT)
    total = torch.tensor(values * _weight(group.place.shard), dtype=torch.float64, device=device)
    exchange.total(total)
    return int(np.count_nonzero(total.cpu().numpy() != values * _total_weight(group.divided.shards)))


def _wrong_in_mpi(comm: MPI.Comm, positions: np.ndarray) -> int:
    values = _values(positions, EXACT)
    total = np.full_like(values, -1)
    comm.Allreduce(values * _weight(comm.rank), total)
    return int(np.count_nonzero(total != values * _total_weight(comm.size)))

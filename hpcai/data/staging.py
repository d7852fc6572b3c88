"""Staging (HPC AI500 V3, data duplicator): each node copies the data of its models to local storage, once.

The ranks of a node divide the files; all ranks of the job end together if one node lacks space. Files that no model of
the node trains on are linked: out-of-bag evaluation, outside the timed region, reads them from their original place.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI
from msgspec import Struct, convert
from msgspec.structs import asdict

from hpcai import clock
from hpcai.comm import communicators, survival
from hpcai.comm.grid import Group
from hpcai.comm.shutdown import Shutdown
from hpcai.comm.world import World, agreed, gather_all, on_all_ranks
from hpcai.data import catalog, dataset_paths, node_copies
from hpcai.data.bootstrap import Mask, sampler
from hpcai.data.image_dataset import Dataset
from hpcai.data.source import source_of
from hpcai.data.weather.weather_dataset import Weather
from hpcai.errors import DataError
from hpcai.inputfile import Case
from hpcai.record.dataset import Staging


class Original(Struct, frozen=True):
    """The original as rank 0 has opened it: fingerprint and samples of the part that SAMPLES names.

    whole: fingerprint of the whole set, which names the copy's folder; empty if there are no files to copy.
    """

    fingerprint: str
    samples: int
    whole: str


@dataclass(frozen=True)
class StagedDataset:
    """The dataset opened from this node's copy, None where nothing had to be copied, and the cost of the copies."""

    dataset: Any  # what the workload trains on, a Dataset or Weather
    measured: Staging


@contextmanager
def staged(case: Case, group: Group | None, world: World, shutdown: Shutdown) -> Iterator[StagedDataset | None]:
    """Context in which the data of a case are on every node; None if STAGE is none, and on idle ranks.

    Collective over `world`. After a shutdown request no further file is copied, and the original is used.

    measured, the same on all active ranks: bytes copied to all nodes, reused_bytes (of existing copies), seconds of the
    slowest rank, nodes, kept. Refused on all ranks if a node lacks space, or if its copy differs from the original.
    """
    if case.stage == "none":
        yield None
        return
    original = convert(agreed(world.comm, lambda: asdict(_original(case))), Original)
    share = _NodeShare(case, group, original, shutdown) if group else None
    try:
        for step in ("claim", "divide", "check_space", "fill", "open"):
            if step == "open" and shutdown.agreed(world.comm):
                break
            on_all_ranks(world.comm, getattr(share, step, _nothing), shutdown.barrier)
        yield StagedDataset(share.dataset, share.measured()) if share else None
    except survival.ERRORS:
        if share:
            survival.defer(share.abandon)
        raise
    except BaseException:
        if share:
            share.abandon()
        raise
    if share:
        share.close()


def _nothing() -> None:
    """Step of an idle rank."""


def _opened(case: Case, samples: int, copied: Path | None = None) -> Dataset | Weather:
    """The dataset of a case with that many samples, or a copy of it."""
    dataset: Dataset | Weather = source_of(case).open({**case.data_settings, "SAMPLES": samples}, copied)
    return dataset


def _original(case: Case) -> Original:
    dataset = _opened(case, case.samples)
    whole = _opened(case, 0).fingerprint if catalog.files(case.dataset) else ""
    return Original(dataset.fingerprint, len(dataset.train), whole)


class _NodeShare:
    """One rank's share of the copies of its node; all ranks of the job take the steps together."""

    def __init__(self, case: Case, group: Group, original: Original, shutdown: Shutdown) -> None:
        self.case, self.group, self.shutdown = case, group, shutdown
        self.original = original
        self.keep = case.stage == "keep"
        self.node = communicators.of_node(group.active)
        self.copy: node_copies.Copy | None = None  # on the node's first rank, which holds the lock
        self.place: Path | None = None
        self.missing: list[node_copies.File] = []
        self.needed: list[node_copies.File] = []  # by the node; known to its first rank only, as `others` are
        self.others: list[node_copies.File] = []
        self.reused, self.begin, self.seconds = 0, clock.now(), 0.0
        self.dataset: Dataset | Weather | None = None

    def claim(self) -> None:
        """Lock a folder and list the needed files, on the first rank of the node."""
        members = {*gather_all(self.node, self.group.coordinates.group)}
        if self.original.whole and self.node.rank == 0:
            self.copy = node_copies.claim(self.original.whole, self.keep)
            self.place = self.copy.place
            spec = self.case.dataset
            needed = catalog.files(spec, self.case.samples, self._trained(members))
            self.needed = node_copies.files_below(dataset_paths.locate(spec), needed)
            self.others = node_copies.files_below(dataset_paths.locate(spec), {*catalog.files(spec)} - {*needed})

    def divide(self) -> None:
        """Determine the files that this rank copies: its part of the needed ones, without existing copies."""
        self.place, needed = self.node.bcast((self.place, self.needed))
        for file in needed[self.node.rank :: self.node.size]:
            if self.keep and self.place and node_copies.is_whole(self.place, file):
                self.reused += file.nbytes
            else:
                self.missing.append(file)

    def _trained(self, members: set[int]) -> Mask | None:
        """Mask of the training samples that these models train on; None for all."""
        models = self.group.planned
        if models == 1 or "SAMPLER" not in self.case.settings:
            return None
        samples = self.original.samples
        needed = np.zeros(samples, np.bool_)
        for member in members:
            needed |= sampler(self.case.sampler, samples, self.case.seed, member, models).in_bag(0, samples)
        return needed

    def check_space(self) -> None:
        needed = self.node.allreduce(self._nbytes)
        if self.copy:
            node_copies.check_space(self.copy.place, needed)

    @property
    def _nbytes(self) -> int:
        return sum(file.nbytes for file in self.missing)

    def fill(self) -> None:
        if self.place is not None:
            for file in takewhile(lambda _: not self.shutdown.poll(), self.missing):
                node_copies.copy_file(self.place, file)
            for file in self.others:
                node_copies.link_file(self.place, file)
        self.seconds = clock.now() - self.begin

    def open(self) -> None:
        """Open the dataset from the copy; DataError if its contents differ from the original."""
        if self.place is None:
            return
        if self.copy:
            self.copy.filled()
        original = dataset_paths.locate(self.case.dataset)
        files = self.place / "files"
        copied = files if original.is_dir() else files / original.name
        self.dataset = _opened(self.case, self.case.samples, copied)
        found, expected = self.dataset.fingerprint, self.original.fingerprint
        if found != expected:
            raise DataError(f"the copy {copied} holds data of SHA-256 {found}; allowed: {expected}, as {original}")

    def measured(self) -> Staging:
        """Sums over all nodes. Collective over the active ranks."""
        active = self.group.active
        return Staging(
            bytes=int(active.allreduce(self._nbytes)),
            reused_bytes=int(active.allreduce(self.reused)),
            nodes=int(active.allreduce(int(self.node.rank == 0))),
            seconds=active.allreduce(self.seconds, MPI.MAX),
            kept=self.keep,
        )

    def close(self) -> None:
        """Release the copy, after the last rank has read from it."""
        if self.copy:
            self.copy.close()
        self.node.Free()

    def abandon(self) -> None:
        """Remove a private copy when the job breaks off."""
        if self.place and not self.keep:
            node_copies.remove(self.place)

"""How the Q ranks of a group divide the training of its model: replicas, shards of channels, stages of layers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isqrt
from re import fullmatch
from typing import Any

# the values of PARALLEL, in the order of their digits in T/V
DATA, TENSOR, PIPELINE, MIXED = MODES = ("data", "tensor", "pipeline", "mixed")
CHUNKS_OF_A_STAGE = 4  # by default
MOST_RANKS = 10**9  # of a group
LEAST_SAMPLES = 2  # of a micro-batch: batch norm needs two values a channel


@dataclass(frozen=True)
class Place:
    """Position of a rank in its group."""

    replica: int
    shard: int
    stage: int = 0

    def __str__(self) -> str:
        return f"{self.replica}.{self.shard}.{self.stage}"


@dataclass(frozen=True)
class Split:
    """d replicas x t shards x s stages = Q ranks.

    Each replica trains on samples of its own; each shard has channels, each stage has layers of its own. Consecutive
    members of a group are shards, which send most, then replicas, then stages, which send least: so shards lie within a
    node if they can, and stages on different ones.
    """

    replicas: int
    shards: int
    stages: int = 1

    @property
    def ranks(self) -> int:
        """Ranks of a group."""
        return self.replicas * self.parts

    @property
    def parts(self) -> int:
        """Ranks that a replica is divided among."""
        return self.shards * self.stages

    def place(self, member: int) -> Place:
        """Of a member of the group, from 0."""
        stage, rest = divmod(member, self.replicas * self.shards)
        return Place(*divmod(rest, self.shards), stage)

    def member(self, place: Place) -> int:
        """The member of the group at a place."""
        return (place.stage * self.replicas + place.replica) * self.shards + place.shard


@dataclass(frozen=True)
class Cut:
    """How a replica of a network is divided: into stages of its layers, and each into shards of its channels.

    samples: of a micro-batch, which a layer computes at once.
    """

    stages: int = 1
    shards: int = 1
    samples: int = 1

    @property
    def parts(self) -> int:
        """Ranks of a replica."""
        return self.stages * self.shards


def parsed(word: str) -> Split | None:
    """The split that a word names, as 2x1x2; None if it is none."""
    found = fullmatch(r"([1-9]\d{0,8})x([1-9]\d{0,8})x([1-9]\d{0,8})", word)
    split = Split(*map(int, found.groups())) if found else None
    return split if split and split.ranks <= MOST_RANKS else None


def split_of(settings: Mapping[str, Any]) -> Split:
    """The split of a case, by PARALLEL, DEGREE and SPLIT; the same on every rank."""
    degree = settings["DEGREE"]
    match settings.get("PARALLEL", DATA):
        case "tensor":
            return Split(1, degree)
        case "pipeline":
            return Split(1, 1, degree)
        case "mixed":
            return parsed(settings["SPLIT"]) or Split(degree, 1)
    return Split(degree, 1)


def chunks_of(settings: Mapping[str, Any]) -> int:
    """Micro-batches of a full step: CHUNKS, by default 4 a stage, or as many as give each two samples and divide it."""
    divided = split_of(settings)
    samples, asked = settings["BATCH"] * divided.parts, settings.get("CHUNKS", 0)
    if divided.stages == 1:
        return 1
    most = min(CHUNKS_OF_A_STAGE * divided.stages, samples // LEAST_SAMPLES)
    return asked or max((number for number in _divisors(samples) if number <= most), default=1)


def _divisors(number: int) -> Iterator[int]:
    for low in range(1, isqrt(number) + 1):
        if number % low == 0:
            yield from (low, number // low)


def micro_batches(samples: int, chunks: int) -> int:
    """Micro-batches of a step of so many samples: `chunks`, or as many as have LEAST_SAMPLES."""
    return max(1, min(chunks, samples // LEAST_SAMPLES))


def cut_of(settings: Mapping[str, Any]) -> Cut:
    """How a case divides each replica; the same on every rank."""
    divided = split_of(settings)
    return Cut(divided.stages, divided.shards, settings["BATCH"] * divided.parts // chunks_of(settings))

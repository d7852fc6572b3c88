"""The packing job: the ranks divide the missing shards, and the index is written when the set is complete."""

import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hpcai.comm.world import World, broadcast, sleeping_barrier
from hpcai.data.dataset_paths import INDEX
from hpcai.data.image_shards import IMAGE_BYTES, TRAIN, VALIDATION, Entry, Index, index_text
from hpcai.data.pack.check import intact
from hpcai.data.pack.resume import Plan
from hpcai.data.pack.shard_writer import entry, write
from hpcai.data.pack.source import Shard, scan, shards
from hpcai.data.pack.target import Progress, claimed, replace

REFUSED = "refused.txt"


@dataclass(frozen=True)
class Options:
    """Options of the command line."""

    source: Path
    target: Path
    shard_bytes: int
    allow_refused: int


def pack(options: Options, world: World) -> int:
    """Make or complete a packed set; the exit code, the same on every rank. Collective."""
    train, validation = scan(options.source, world)
    each = max(1, options.shard_bytes // IMAGE_BYTES)
    planned = [*shards(train, each), *shards(validation, each)]
    with claimed(options.target, world):
        missing = Plan(options.target, INDEX, planned, entry, intact).missing(world)
        progress = Progress(options.target, [planned[number].file for number in missing], world.rank)
        for number in missing[world.rank :: world.size]:
            write(options.target, planned[number], progress.count_sample)
        sleeping_barrier(world.comm)
        return int(broadcast(world.comm, _close(options, planned) if world.rank == 0 else None))


def _close(options: Options, planned: list[Shard]) -> int:
    """Write the list of refused images and, if they are not too many, the index; the exit code."""
    target = options.target
    made = [entry(target / shard.file, shard) for shard in planned]
    refused = [line for _, lines in made for line in lines]
    replace(target / REFUSED, "".join(f"{line}\n" for line in refused))
    print(f"hpcai: {len(refused)} images refused, named in {target / REFUSED}" if refused else "hpcai: none refused")
    if len(refused) > options.allow_refused:
        with suppress(FileNotFoundError):
            (target / INDEX).unlink()
        print(
            f"hpcai: {target} is no dataset yet: {len(refused)} images refused, {options.allow_refused} allowed; "
            f"with --allow-refused {len(refused)} it becomes one without them, in seconds",
            file=sys.stderr,
        )
        return 1
    index = _index(planned, [done for done, _ in made], len(refused))
    replace(target / INDEX, index_text(index))
    print(
        f"hpcai: {target}: {index.samples(TRAIN)} + {index.samples(VALIDATION)} samples, {len(index.classes)} classes, "
        f"{len(made)} shards, fingerprint {index.fingerprint}"
    )
    return 0


def _index(planned: list[Shard], entries: list[Entry], refused: int) -> Index:
    by_split = {
        name: tuple(done for shard, done in zip(planned, entries, strict=True) if shard.split.name == name)
        for name in (TRAIN, VALIDATION)
    }
    return Index(planned[0].split.classes, by_split[TRAIN], by_split[VALIDATION], refused)

"""The packing job of climate fields: the ranks divide the missing shards, then the index is written."""

import zlib
from collections.abc import Iterator
from pathlib import Path

from hpcai.comm import world as worlds
from hpcai.comm.world import World, agreed, on_all_ranks
from hpcai.data.dataset_paths import WEATHER_INDEX
from hpcai.data.image_shards import SPLITS, TRAIN, VALIDATION, check_frame, opened
from hpcai.data.pack.check import print_differences
from hpcai.data.pack.resume import Plan
from hpcai.data.pack.target import Progress, claimed, replace
from hpcai.data.weather import statistics
from hpcai.data.weather.moments import normalisation
from hpcai.data.weather.published import faults, name, parts
from hpcai.data.weather.shard_writer import Scale, Shard, entry, intact, write
from hpcai.data.weather.weather_shards import Contents, Entry, Index, index_text, read_index
from hpcai.data.weather.year_file import Part


def pack(source: Path, target: Path, shard_bytes: int, world: World) -> int:
    """Make or complete a packed set; the exit code, the same on every rank. Collective."""
    worlds.bind_to_processors(world)
    found: list[list[Part]] = []
    on_all_ranks(world.comm, lambda: found.extend(parts(source)))
    train, validation = found
    planned = _planned(train, validation, shard_bytes, world)
    with claimed(target, world):
        missing = Plan(target, WEATHER_INDEX, planned, entry, intact).missing(world)
        progress = Progress(target, [planned[number].file for number in missing], world.rank)

        def work() -> None:
            for number in missing[world.rank :: world.size]:
                write(target, planned[number], progress.count_sample)

        on_all_ranks(world.comm, work)
        return int(agreed(world.comm, lambda: _close(source, target, planned)))


def check(target: Path, world: World) -> int:
    """Print every damaged frame and shard of a packed set; the exit code, the same on every rank. Collective."""
    index = read_index(target)
    entries = [each for split in SPLITS for each in index.split(split)]
    return print_differences(target, entries, _differences, index.fingerprint, world)


def _planned(train: list[Part], validation: list[Part], shard_bytes: int, world: World) -> list[Shard]:
    known = statistics.known([*train, *validation], world.comm)
    scale = Scale(*normalisation(statistics.total(known[: len(train)])))
    planned = []
    for split, of, found in ((TRAIN, train, known[: len(train)]), (VALIDATION, validation, known[len(train) :])):
        pieces = [
            (piece, each.sha256) for part, each in zip(of, found, strict=True) for piece in _cut(part, shard_bytes)
        ]
        planned += [Shard(split, number, *piece, scale) for number, piece in enumerate(pieces)]
    return planned


def _cut(part: Part, shard_bytes: int) -> Iterator[Part]:
    """Split a part into pieces of whole blocks of its file, of about `shard_bytes` each when packed."""
    blocks = part.blocks()
    frame = 2 * part.year.shape[0] * part.year.shape[1] * part.year.shape[2]
    each = max(1, shard_bytes // (frame * part.year.block))
    for first in range(0, len(blocks), each):
        yield Part(part.year, blocks[first][0], blocks[min(first + each, len(blocks)) - 1][1])


def _close(source: Path, target: Path, planned: list[Shard]) -> int:
    """Write the index; the exit code."""
    entries = [entry(target / shard.file, shard) for shard in planned]
    of = list({shard.part.year.path: shard.part for shard in planned}.values())
    by_split = {
        split: tuple(done for shard, done in zip(planned, entries, strict=True) if shard.split == split)
        for split in SPLITS
    }
    mean, std = (tuple(values.tolist()) for values in (planned[0].scale.mean, planned[0].scale.std))
    years, found = [part.year for part in of], str(faults(of))
    index = Index(name(years), str(source), years[0].shape, mean, std, found, by_split[TRAIN], by_split[VALIDATION])
    replace(target / WEATHER_INDEX, index_text(index))
    frames = [sum(each.samples for each in index.split(split)) for split in SPLITS]
    print(f"hpcai: {source}: {found}")
    print(f"hpcai: {target}: {frames[0]} + {frames[1]} frames, {len(entries)} shards, fingerprint {index.fingerprint}")
    return 0


def _differences(path: Path, entry: Entry) -> Iterator[str]:
    check_frame(path, entry)
    with opened(path) as file:
        images, boxes, source = file["images"], file["boxes"][:], file.attrs["made_from"]
        digest = Contents((images.shape[3], *images.shape[1:3]))
        for number, expected in enumerate(file["crc32"][:]):
            frame = images[number]
            digest.add(frame)
            if zlib.crc32(frame.data) != expected:
                yield f"{path}: frame {number} ({source} + {number}) differs from its CRC-32"
        found = digest.close(boxes)
    if found != entry.sha256:
        yield f"{path}: contents of SHA-256 {found}; allowed: {entry.sha256}"

"""Command that packs published climate fields for training in any order.

Usage: `python -P -m hpcai.data.pack_weather SOURCE TARGET`.
`mpirun -np N` in front of it divides the work. Exit codes: 0 done · 1 a check that found damage · 2 illegal options or
source · 3 broken off.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.data.packing_command import SHARD_BYTES, command, count

if TYPE_CHECKING:
    from hpcai.comm.world import World


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code; every rank of the job ends with it."""
    return command(lambda: _options(arguments), _run)


def _run(options: argparse.Namespace, world: "World") -> int:
    from hpcai.data.weather import weather_packing

    if options.check:
        return weather_packing.check(options.check, world)
    return weather_packing.pack(options.source, options.target, options.shard_bytes, world)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -P -m hpcai.data.pack_weather",
        description="Pack published climate fields, normalised, in fp16, each frame in one piece.",
    )
    parser.add_argument("source", type=Path, nargs="?", help="folder with climo_YYYY.h5, or one such file")
    parser.add_argument("target", type=Path, nargs="?", help="folder for the shards; what is complete there is kept")
    parser.add_argument("--shard-bytes", type=count, default=SHARD_BYTES, metavar="N", help="bytes of a shard [1e9]")
    parser.add_argument("--check", type=Path, metavar="TARGET", help="read a packed set again and compare checksums")
    options = parser.parse_args(arguments)
    if (options.check is None) == (options.target is None):
        parser.error("allowed: SOURCE TARGET, or --check TARGET")
    return options


if __name__ == "__main__":
    sys.exit(main())

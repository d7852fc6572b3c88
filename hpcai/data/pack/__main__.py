"""Command line of the packer; under `mpirun -np N` the ranks divide the work.

Exit codes: 0 done · 1 images refused, or a check that found damage · 2 illegal options or source · 3 broken off.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.data.packing_command import SHARD_BYTES, command, count
from hpcai.errors import InputError

if TYPE_CHECKING:
    from hpcai.comm.world import World


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code; every rank of the job ends with it."""
    return command(lambda: _options(arguments), _run)


def _run(options: argparse.Namespace, world: "World") -> int:
    if options.check:
        from hpcai.data.pack.check import check

        return check(options.check, world)
    try:
        from hpcai.data.pack.job import Options, pack
    except ImportError as error:
        raise InputError(f"{error}; allowed: Pillow installed, by `pip install hpcai-bench[imagenet]`") from error
    return pack(Options(options.source, options.target, options.shard_bytes, options.allow_refused), world)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -P -m hpcai.data.pack", description="Pack class folders of images into the shards of a dataset."
    )
    parser.add_argument("source", type=Path, nargs="?", help="folder with train/CLASS/ and val/CLASS/")
    parser.add_argument("target", type=Path, nargs="?", help="folder for the shards; what is complete there is kept")
    parser.add_argument("--shard-bytes", type=count, default=SHARD_BYTES, metavar="N", help="bytes of a shard [1e9]")
    parser.add_argument("--allow-refused", type=count, default=0, metavar="N", help="unreadable images left out [0]")
    parser.add_argument("--check", type=Path, metavar="TARGET", help="read a packed set again and compare checksums")
    options = parser.parse_args(arguments)
    if (options.check is None) == (options.target is None):
        parser.error("allowed: SOURCE TARGET, or --check TARGET")
    return options


if __name__ == "__main__":
    sys.exit(main())

"""Command line of the packer; `mpirun -np N` in front of it divides the work.

Exit codes: 0 done · 1 pictures refused, or a check that found damage · 2 illegal options or source · 3 broken off.
"""

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.errors import InputError, Refused
from hpcai.machine import launcher

if TYPE_CHECKING:
    from hpcai.comm.world import World

SHARD_BYTES = 10**9


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code; every rank of the job ends with it."""
    speaks = launcher.environment_rank(os.environ) == 0
    with contextlib.nullcontext() if speaks else contextlib.redirect_stderr(io.StringIO()):
        options = _options(arguments)
    from hpcai.comm import world as worlds

    worlds.guard()
    try:
        code = _run(options, worlds.join())
    except Refused as error:
        if speaks:
            print(f"hpcai: {error}", file=sys.stderr)
        code = error.exit_code
    except BaseException as error:  # noqa: BLE001 - the job ends here, whatever it was
        worlds.abort_because(error)
    worlds.finish()
    return code


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
        "python -m hpcai.data.pack", description="Pack class folders of pictures into the shards of a dataset."
    )
    parser.add_argument("source", type=Path, nargs="?", help="folder with train/CLASS/ and val/CLASS/")
    parser.add_argument("target", type=Path, nargs="?", help="folder for the shards; what is complete there is kept")
    parser.add_argument("--shard-bytes", type=_count, default=SHARD_BYTES, metavar="N", help="bytes of a shard [1e9]")
    parser.add_argument("--allow-refused", type=_count, default=0, metavar="N", help="unreadable pictures left out [0]")
    parser.add_argument("--check", type=Path, metavar="TARGET", help="read a packed set again and compare checksums")
    options = parser.parse_args(arguments)
    if (options.check is None) == (options.target is None):
        parser.error("allowed: SOURCE TARGET, or --check TARGET")
    return options


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: a whole number of at least 0")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())

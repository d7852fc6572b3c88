"""Common part of the packing commands, which run alone or under an MPI launcher, with one exit code on all ranks."""

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from hpcai.errors import LaunchError, Refused
from hpcai.machine import launcher

if TYPE_CHECKING:
    from hpcai.comm.world import World

SHARD_BYTES = 10**9


def command(options_of: Callable[[], argparse.Namespace], run: Callable[[argparse.Namespace, "World"], int]) -> int:
    """Run the job with its options; the exit code, the same on every rank."""
    is_first = launcher.environment_rank(os.environ) == 0
    with contextlib.nullcontext() if is_first else contextlib.redirect_stderr(io.StringIO()):
        options = options_of()
    from hpcai.comm import starting

    try:
        starting.start_mpi(os.environ)
    except LaunchError as error:
        if is_first:
            print(f"hpcai: {error}", file=sys.stderr)
        return error.exit_code
    from hpcai.comm import world as worlds

    worlds.abort_on_early_exit()
    try:
        code = run(options, worlds.join())
    except Refused as error:
        if is_first:
            print(f"hpcai: {error}", file=sys.stderr)
        code = error.exit_code
    except BaseException as error:  # noqa: BLE001 - the job ends here on any error
        worlds.abort_because(error)
    worlds.finish()
    return code


def count(text: str) -> int:
    """A non-negative integer as the value of an option."""
    if not text.isascii() or not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: a whole number of at least 0")
    return int(text)

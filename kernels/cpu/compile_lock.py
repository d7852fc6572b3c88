"""Compilation of a function by one process of a node at a time: the others wait, then load its machine code.

A lock is a byte of a file in the node's temporary folder, locked by POSIX record locks, which end with their process.
Without such a file, or after two minutes, a process compiles for itself.
"""

import errno
import fcntl
import hashlib
import os
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from time import sleep

WAIT_SECONDS = 0.05
MOST_WAITS = 2400  # two minutes: the process that compiles may have been stopped


class CompileLock:
    """The lock of one function; `name` is that of its machine code. Not inherited by children."""

    def __init__(self, name: str) -> None:
        self._offset = int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big")
        self._held = False

    def acquire(self) -> bool:
        """Acquire the lock; whether another process held it, and may have compiled the function meanwhile."""
        if self._held or (file := _file()) is None:
            return False
        for waits in range(MOST_WAITS):
            if self._try(file):
                return waits > 0
            sleep(WAIT_SECONDS)
        return False

    def release(self) -> None:
        """Release the lock if it was acquired."""
        if self._held and (file := _file()) is not None:
            fcntl.lockf(file, fcntl.LOCK_UN, 1, self._offset)
        self._held = False

    def _try(self, file: int) -> bool:
        """Whether to wait no longer: this process has the lock now, or this file system has no locks."""
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self._offset)
        except OSError as error:
            return error.errno not in (errno.EACCES, errno.EAGAIN)  # which mean that another process has it
        self._held = True
        return True


@cache
def _file() -> int | None:
    """The file of the node's locks, open until this process ends; None if this user cannot have one."""
    with suppress(OSError):
        path = Path(tempfile.gettempdir()) / f"hpcai-compile-{os.getuid()}.lock"
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        if os.fstat(file).st_uid == os.getuid():
            return file
        os.close(file)
    return None

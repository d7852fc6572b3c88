"""Records of equal size in a file, read by offset and verified by CRC-32."""

import os
import zlib
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from hpcai.errors import DataError


class ChecksummedRecords:
    """Consecutive records of one file from byte `begin` on; sums, uint32[n], are their CRC-32.

    Each process opens the file once, at its first reading; any number of threads may read at the same time. source:
    origin of a record, for messages; check: command that finds all damaged records.
    """

    def __init__(
        self, path: Path, begin: int, sums: NDArray[np.uint32], source: Callable[[int], str], check: str
    ) -> None:
        self.path, self._begin, self._sums, self._source, self._check = path, begin, sums, source, check
        self._descriptor, self._opening = -1, Lock()

    @property
    def checksums(self) -> NDArray[np.uint32]:
        """The CRC-32 of each record."""
        return self._sums

    def read(self, number: int, into: memoryview) -> None:
        """Read one record into `into`; DataError if that fails or the checksum differs."""
        offset, done = self._begin + number * len(into), 0
        try:
            while done < len(into):
                count = os.preadv(self._open(), [into[done:]], offset + done)
                if count == 0:
                    raise DataError(f"{self.path} ends in sample {number}; allowed: a whole shard")
                done += count
        except OSError as error:
            raise DataError(f"{self.path}: sample {number} cannot be read: {error.strerror}") from error
        if zlib.crc32(into) != self._sums[number]:
            raise DataError(
                f"{self.path}: sample {number} ({self._source(number)}) is damaged: "
                f"its CRC-32 is another; `{self._check}` finds all such samples"
            )

    def _open(self) -> int:
        with self._opening:
            if self._descriptor < 0:
                self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
                # not __del__, which would find no functions left when the interpreter ends
                finalize(self, os.close, self._descriptor).atexit = False
        return self._descriptor

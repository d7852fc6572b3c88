"""Standard output of a run: if it is closed or full, the run goes on and writes its files."""

import os
import sys
from contextlib import suppress


class StandardOutput:
    """Prints the report; lost: whether a part of it could not be printed, which is told once on stderr."""

    lost = False

    def print(self, text: str) -> None:
        """Print text without a line break at its end; nothing after a part was lost."""
        if self.lost:
            return
        try:
            os.fstat(sys.stdout.fileno())  # None if it was closed before the program began
            print(text, end="", flush=True)
        except (OSError, ValueError, AttributeError) as error:
            self._lose(getattr(error, "strerror", None) or "it is closed")

    def _lose(self, why: str) -> None:
        self.lost = True
        with suppress(OSError, ValueError, AttributeError):  # or the interpreter would fail to write the rest
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        with suppress(OSError):
            print(f"hpcai: cannot write the report to standard output: {why}; files are written", file=sys.stderr)

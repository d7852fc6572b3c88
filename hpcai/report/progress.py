"""How far a run has come, on stderr: a live line on a terminal, else a plain line at most every half minute."""

from typing import TextIO

from hpcai import clock

INTERVAL = 30.0  # seconds between plain lines


class ProgressLine:
    """Rank 0's line; `tell` replaces it, `clear` takes it away before the report goes on."""

    def __init__(self, stream: TextIO, planned: int) -> None:
        self._stream = stream
        self._planned = planned
        self._live = stream.isatty()
        self._shown = clock.now()

    def tell(self, test: int, text: str) -> None:
        """Show `text` for test number `test`; called outside the timed region."""
        line = f"test {test} of {self._planned}: {text}"
        if self._live:
            self._write(f"\r\033[K{line}")
        elif clock.now() - self._shown >= INTERVAL:
            self._shown = clock.now()
            self._write(f"{line}\n")

    def clear(self) -> None:
        """Leave an empty line to the report."""
        if self._live:
            self._write("\r\033[K")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

"""Progress line on stderr: live on a terminal, else a plain line at most every half minute."""

from typing import TextIO

from hpcai import clock

LIVE = 1.0  # seconds between updates of a live line
PLAIN = 30.0  # seconds between plain lines


class ProgressLine:
    """Rank 0's progress line; `show` replaces it, `clear` removes it before the report continues."""

    def __init__(self, stream: TextIO, planned: int) -> None:
        self._stream = stream
        self._planned = planned
        self._live = stream.isatty()
        self._shown = clock.now()
        self._test, self._begun, self._done = 0, 0.0, 0.0

    def show(self, test: int, text: str, share: float) -> None:
        """Show `text` for test number `test`, whose training is done by `share`; most calls return at once."""
        now = clock.now()
        if test != self._test:
            self._test, self._begun, self._done = test, now, share
        if now - self._shown >= (LIVE if self._live else PLAIN):
            self._shown = now
            line = f"test {test} of {self._planned}: {text}, {share:.0%}{self._left(now, share)}"
            self._write(f"\r\033[K{line}" if self._live else f"{line}\n")

    def clear(self) -> None:
        """Remove the line before the report is printed."""
        if self._live:
            self._write("\r\033[K")

    def _left(self, now: float, share: float) -> str:
        """Remaining time of the test's training, extrapolated from its progress."""
        if share <= self._done:
            return ""
        seconds = round((now - self._begun) * (1 - share) / (share - self._done))
        return f", {seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d} to go"

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

"""The progress line: live on a terminal, rare and plain elsewhere."""

import io

import pytest

from hpcai import clock
from hpcai.report import progress
from hpcai.report.progress import ProgressLine


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_each_line_replaces_the_last_and_the_report_finds_an_empty_one() -> None:
    terminal = Terminal()
    line = ProgressLine(terminal, 2)
    line.tell(1, "epoch 1 of 5")
    line.tell(1, "epoch 2 of 5")
    line.clear()
    assert terminal.getvalue().split("\r\033[K") == ["", "test 1 of 2: epoch 1 of 5", "test 1 of 2: epoch 2 of 5", ""]


def test_elsewhere_a_plain_line_at_most_every_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = 100.0
    monkeypatch.setattr(clock, "now", lambda: seconds)
    file = io.StringIO()
    line = ProgressLine(file, 2)
    for _ in range(10):
        line.tell(2, f"at {seconds:.0f}")
        line.clear()
        seconds += progress.INTERVAL / 3
    assert file.getvalue() == "test 2 of 2: at 130\ntest 2 of 2: at 160\ntest 2 of 2: at 190\n"

"""The progress line: updated in place on a terminal, rare and plain elsewhere."""

import io

import pytest

from hpcai import clock
from hpcai.report import progress
from hpcai.report.progress import ProgressLine


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clockwork(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, in a list of one element that the tests set."""
    time = [100.0]
    monkeypatch.setattr(clock, "now", lambda: time[0])
    return time


def test_on_a_terminal_each_line_replaces_the_last_and_is_erased_for_the_report(clockwork: list[float]) -> None:
    terminal = Terminal()
    line = ProgressLine(terminal, 2)
    for step in range(5):
        line.show(1, f"step {step}", step / 8)
        clockwork[0] += progress.LIVE / 2
    line.clear()
    shown = ["", "test 1 of 2: step 2, 25%, 0:00:03 to go", "test 1 of 2: step 4, 50%, 0:00:02 to go", ""]
    assert terminal.getvalue().split("\r\033[K") == shown


def test_elsewhere_there_is_at_most_one_plain_line_per_interval(clockwork: list[float]) -> None:
    file = io.StringIO()
    line = ProgressLine(file, 2)
    for _ in range(10):
        line.show(2, f"at {clockwork[0]:.0f}", 0.0)
        line.clear()
        clockwork[0] += progress.PLAIN / 3
    assert file.getvalue().splitlines() == [f"test 2 of 2: at {at}, 0%" for at in (130, 160, 190)]


def test_the_remaining_time_follows_from_each_tests_own_pace(clockwork: list[float]) -> None:
    file = io.StringIO()
    line = ProgressLine(file, 2)
    for test, shares in ((1, (0.0, 0.1)), (2, (0.0, 0.5))):
        for share in shares:
            clockwork[0] += 1200.0
            line.show(test, "on", share)
    assert file.getvalue().splitlines() == [
        "test 1 of 2: on, 0%",
        "test 1 of 2: on, 10%, 3:00:00 to go",
        "test 2 of 2: on, 0%",
        "test 2 of 2: on, 50%, 0:20:00 to go",
    ]

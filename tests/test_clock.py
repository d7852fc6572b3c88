"""The clock: phases add up between synchronised moments; the age of a process is right."""

import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest
import torch

from hpcai import clock

CPU = torch.device("cpu")


def test_phases_add_up_and_synchronise_before_the_clock_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    readings, log = iter([10.0, 11.5, 20.0, 20.25, 30.0, 34.0]), []

    def now() -> float:
        log.append("read")
        return next(readings)

    monkeypatch.setattr(clock, "now", now)
    monkeypatch.setattr(clock, "synchronise", lambda device: log.append(device))
    phases = clock.Phases(CPU)
    for phase in ("training", "validation", "training"):
        with phases.measure(phase):
            log.append("work")
    assert phases.seconds == {"training": 5.5, "validation": 0.25}
    assert log == [CPU, "read", "work", CPU, "read"] * 3


def test_phases_continue_from_credited_seconds() -> None:
    phases = clock.Phases(CPU)
    phases.seconds["training"] = 100.0
    with phases.measure("training"):
        time.sleep(0.01)
    assert 100.01 <= phases.seconds["training"] < 160


def test_a_phase_that_fails_is_not_credited() -> None:
    phases = clock.Phases(CPU)
    with pytest.raises(KeyError), phases.measure("training"):
        raise KeyError
    assert phases.seconds == {}


def test_now_only_goes_forward() -> None:
    readings = [clock.now() for _ in range(1000)]
    assert readings == sorted(readings) and readings[-1] > readings[0]


AGE = """
import sys, time
from hpcai import clock
time.sleep(0.2)
first, begin = clock.since_process_start(), clock.now()
time.sleep(0.2)
second, end = clock.since_process_start(), clock.now()
assert "torch" not in sys.modules
print(first, second, end - begin)
"""


def test_the_age_of_a_process_is_within_its_observed_running_time() -> None:
    tick = 0.011  # the system keeps a process's start to 0.01 s
    begin = time.perf_counter()
    finished = subprocess.run([sys.executable, "-c", AGE], capture_output=True, text=True, check=True)
    outside = time.perf_counter() - begin
    first, second, between = map(float, finished.stdout.split())
    assert 0.2 - tick <= first <= second <= outside + tick
    assert between - tick <= second - first <= outside


def test_date_is_utc_to_the_second() -> None:
    date = clock.utc()
    assert date.tzinfo is UTC and date.microsecond == 0
    assert timedelta(0) <= datetime.now(UTC) - date < timedelta(minutes=1)

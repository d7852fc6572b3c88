"""Telemetry of a node: real load is measured, unknown values are None, the thread ends, and memory does not grow."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from launch import wait_until

from hpcai.machine import memory, telemetry
from hpcai.machine.affinity import own_cpus
from hpcai.machine.node_sensors import NAMES, NodeSensors, Values
from hpcai.machine.telemetry import KEPT, LEAST, Sampler, Series, means, pause

# user nice system idle iowait irq softirq steal guest guest_nice
STAT = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 {0}\ncpu1 {1}\ncpu10 7 7 7 7 7 7 7 7 7 7\nintr 5 5\n"
ENDLESS = "while True: pass"


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "telemetry"]


def of_one(value: float | None) -> Values:
    """Values that are all equal."""
    return (value,) * len(NAMES)


def with_unknown(*values: float | None) -> list[float | None]:
    """Seconds and these quantities, the last of them for all others."""
    return [*values, *(values[-1] for _ in NAMES[len(values) - 1 :])]


def read(folder: Path, before: tuple[str, str], after: tuple[str, str], cpus: list[int]) -> float | None:
    """The processors' share of the time between two states of the kernel's counters."""
    stat = folder / "stat"
    stat.write_text(STAT.format(*before))
    gauges = NodeSensors(cpus, [], stat)
    stat.write_text(STAT.format(*after))
    return gauges.read()[0]


@pytest.mark.parametrize(
    ("ticks", "share"),
    [
        ("10 0 0 0 0 0 0 0 10 0", 1.0),
        ("2 1 3 10 0 1 3 0 2 1", 0.5),
        ("5 0 0 5 5 0 0 5 0 0", 0.25),
        ("0 0 0 9 0 0 0 0 0 0", 0.0),
        ("0 0 0 0 0 0 0 0 0 0", None),
    ],
)
def test_the_busy_share_of_a_processor(ticks: str, share: float | None, tmp_path: Path) -> None:
    """Guests are part of user; waiting for a disk or for another machine's processor is not busy."""
    nothing, much = "0 " * 10, "99 " * 10
    assert read(tmp_path, (nothing, nothing), (ticks, much), [0]) == share
    assert read(tmp_path, (nothing, nothing), (much, ticks), [1]) == share


def test_several_processors_are_one_share(tmp_path: Path) -> None:
    busy, idle, nothing = "6 0 0 0 0 0 0 0 0 0", "0 0 0 2 0 0 0 0 0 0", "0 " * 10
    assert read(tmp_path, (nothing, nothing), (busy, idle), [0, 1]) == 0.75


def test_decreasing_counters_of_the_kernel_give_a_share(tmp_path: Path) -> None:
    assert read(tmp_path, ("0 0 0 0 5 0 0 0 0 0",) * 2, ("9 0 0 0 4 0 0 0 0 0",) * 2, [0, 1]) == 1.0


def test_a_busy_process_is_measured() -> None:
    """On one processor, whatever other processes use it."""
    cpu = own_cpus()[0]
    gauges = NodeSensors([cpu], [])
    program = f"import os; os.sched_setaffinity(0, {{{cpu}}}); print(1, flush=True)\n{ENDLESS}"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as busy:
        assert busy.stdout and busy.stdout.readline()
        gauges.begin()
        threading.Event().wait(0.5)
        share = gauges.read()[0]
        busy.kill()
    assert share is not None and share > 0.9
    gauges.begin()
    threading.Event().wait(0.5)
    left = gauges.read()[0]
    if left is not None and left > 0.5:
        pytest.skip("OTHERS USE THE PROCESSORS: IDLENESS NOT TESTED")
    assert left is not None and left < share


def test_memory_in_use_is_measured() -> None:
    assert any(_block_is_seen(512 << 20) for _ in range(5)), "never more in use, though others may have freed theirs"


def _block_is_seen(size: int) -> bool:
    """Whether the memory in use grew by half of a new block or more: others of the node take and free memory too."""
    gauges = NodeSensors(own_cpus(), [])
    before = gauges.read()[1]
    block = bytearray(b"x") * size
    after = gauges.read()[1]
    assert before is not None and after is not None
    assert 0 < before <= memory.installed() and 0 < after <= memory.installed()
    return after - before > len(block) // 2


def test_memory_of_a_control_group_is_measured(tmp_path: Path) -> None:
    proc, groups = tmp_path / "proc", tmp_path / "groups"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text("MemTotal: 8000 kB\nMemAvailable: 6000 kB\n")
    (proc / "self/cgroup").write_text("0::/job\n")
    assert memory.Use(proc, groups).nbytes() == 2000 * 1024
    (groups / "job").mkdir(parents=True)
    for name, text in (("max", "max"), ("current", "700"), ("stat", "anon 5\ninactive_file 100\n")):
        (groups / "job" / f"memory.{name}").write_text(text)
    assert memory.Use(proc, groups).nbytes() == 2000 * 1024
    (groups / "job/memory.max").write_text("1000")
    assert memory.Use(proc, groups).nbytes() == 600


def test_unknown_values_are_none_and_not_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing() -> None:
        raise FileNotFoundError

    monkeypatch.setattr(memory, "Use", nothing)
    assert NodeSensors(own_cpus(), [], tmp_path / "stat", tmp_path).read() == of_one(None)


def test_the_interval_is_a_hundredth_of_the_time_within_bounds() -> None:
    assert [pause(seconds, 30.0) for seconds in (0, 25, 100, 2000, 3000, 1e5)] == [0.25, 0.25, 1, 20, 30, 30]
    assert pause(1e5, 0.5) == 0.5 and pause(0, LEAST) == LEAST


def test_a_long_series_stays_small_evenly_spaced_and_right() -> None:
    series, values = Series(), [(number * 7919 % 1000) / 1000 for number in range(10_007)]
    for second, value in enumerate(values, 1):
        series.add(second, tuple(with_unknown(0, value, 1000 * value, value, None)[1:]))
    rows = series.rows()
    spans = [row[0] - other[0] for other, row in zip([[0], *rows], rows, strict=False)]
    assert len(rows) == KEPT and rows[-1][0] == series.seconds == series.count == len(values)
    assert max(spans) <= 4 * min(spans)
    expected = sum(values) / len(values)
    assert means(rows) == (pytest.approx(expected, abs=1e-4), pytest.approx(1000 * expected, abs=1), *means(rows)[2:])
    assert means(rows)[3] is None and series.maximum[:4] == (0.999, 999, 0.999, None)
    assert series.interval == 1


def test_means_are_weighted_by_time() -> None:
    rows = [with_unknown(1.0, 1.0, 10, None, None), with_unknown(4.0, 0.0, 50, 0.5, None)]
    assert means(rows) == (0.25, 40.0, *[None] * (len(NAMES) - 2))
    assert means([]) == of_one(None)


def test_a_short_series_keeps_every_sample() -> None:
    series = Series()
    for seconds, value in ((0.2503, 0.123456), (0.2504, 1.0), (1.0, 0.5)):  # the second adds no millisecond
        series.add(seconds, of_one(value))
    assert series.rows() == [with_unknown(0.25, 0.1235, 0, 0.1235, 0), with_unknown(1.0, 0.5, 0, 0.5, 0)]
    assert (series.count, series.interval, series.maximum) == (2, 0.75, tuple(with_unknown(9, 0.5, 0, 0.5, 0)[1:]))


def test_a_sampler_samples_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def values() -> Values:
        calls.append(threading.current_thread().name)
        return of_one(0.5)

    monkeypatch.setattr(telemetry, "LEAST", 0.01)
    sampler = Sampler(values, 0.01)
    assert len(threads()) == 1
    assert wait_until(lambda: len(calls) > 4, 20)
    series = sampler.end()
    assert not threads() and set(calls[:4]) == {"telemetry"}
    assert len(calls) - 1 <= series.count <= len(calls) and series.rows()[-1][1:] == with_unknown(9, 0.5, 0, 0.5, 0)[1:]
    seen = len(calls)
    threading.Event().wait(0.1)
    assert len(calls) == seen


def test_the_shortest_test_has_a_sample() -> None:
    sampler = Sampler(lambda: of_one(1.0), 30.0)
    threading.Event().wait(0.02)
    series = sampler.end()
    assert series.count == 1 and series.maximum == of_one(1.0) and series.seconds > 0.01


def test_a_last_sample_of_a_very_short_time_is_omitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its share would be that of a few ticks, and could be the maximum."""
    clock = iter([0.0, 0.0, 0.25, 0.25, 0.4])
    monkeypatch.setattr(telemetry.clock, "now", lambda: next(clock, 0.4))
    sampler = Sampler(lambda: of_one(1.0), 30.0)
    assert wait_until(lambda: sampler._series.count == 1, 20)
    assert sampler.end().count == 1

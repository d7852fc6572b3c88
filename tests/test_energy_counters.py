"""Counters of energy by files that count as those of the system do, to the joule."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from energy_files import RANGE, Tree, two_packages, used

from hpcai.machine import energy_counters
from hpcai.machine.energy_counters import GpuCounter, NotCountedError, PmCounters, Rapl, counters
from hpcai.machine.power_meter import joules_between

BEGIN = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def counting_in_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files here count the joules of minutes at once."""
    monkeypatch.setattr(energy_counters, "LATE", 1e6)



def test_packages_and_dram_are_counted_across_the_end_of_a_counter(tmp_path: Path) -> None:
    tree = two_packages(tmp_path)
    rapl = Rapl(tmp_path)
    rapl.begin()
    used(tree, 4000)
    assert int((tmp_path / "class/powercap/intel-rapl:0/energy_uj").read_text()) < 2 * 10**9  # started again
    assert rapl.joules() == pytest.approx(4000, abs=1e-6) and rapl.covers == "packages and DRAM"


def test_a_counter_that_was_set_to_0_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks like the end of its range, with more joules than a package uses."""
    monkeypatch.setattr(energy_counters, "LATE", 1.0)
    tree = Tree(tmp_path).domain("intel-rapl:0", "package-0")
    rapl = Rapl(tmp_path)
    rapl.begin()
    tree.count("intel-rapl:0", RANGE - 4_000_000)
    with pytest.raises(NotCountedError, match=r"262139 J in .* s; was it set to 0\?"):
        rapl.joules()


def test_without_dram_only_packages_are_covered(tmp_path: Path) -> None:
    tree = Tree(tmp_path).domain("intel-rapl:0", "package-0")
    rapl = Rapl(tmp_path)
    rapl.begin()
    tree.count("intel-rapl:0", 7_000_000)
    assert (rapl.joules(), rapl.covers) == (pytest.approx(7), "packages")


def test_psys_alone_is_no_package(tmp_path: Path) -> None:
    Tree(tmp_path).domain("intel-rapl:0", "psys")
    with pytest.raises(NotCountedError, match="no RAPL package"):
        Rapl(tmp_path)


def test_a_counter_that_starts_again_many_times_is_read_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = Tree(tmp_path).domain("intel-rapl:0", "package-0")
    monkeypatch.setattr(energy_counters, "SHARE_OF_RANGE", 1e-5)  # 5 ms
    rapl = Rapl(tmp_path)
    rapl.begin()
    for round_ in range(1, 6):
        tree.count("intel-rapl:0", 200_000_000_000)
        while rapl.microjoules < round_ * 200_000_000_000:
            sleep(0.001)
    assert rapl.joules() == pytest.approx(1e6, abs=1e-6)


def test_a_counter_that_may_have_ended_twice_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Tree(tmp_path).domain("intel-rapl:0", "package-0")
    rapl, times = Rapl(tmp_path), iter([0.0, 525.0])
    monkeypatch.setattr(energy_counters.clock, "now", lambda: next(times))
    rapl.begin()
    with pytest.raises(NotCountedError, match=r"more than once in 525 s"):
        rapl.joules()


def test_a_counter_without_permission_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_packages(tmp_path)
    path = tmp_path / "class/powercap/intel-rapl:1/energy_uj"
    forbid(path, monkeypatch)
    found, reasons = counters([], tmp_path)
    assert found == {} and f"{path}: Permission denied" in reasons


def forbid(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a file fails as without permission; root, who may read all files, is refused as well."""
    genuine = Path.read_text

    def read(self: Path, *arguments: Any) -> str:
        if self == path:
            raise PermissionError(13, os.strerror(13), str(path))
        return genuine(self, *arguments)

    monkeypatch.setattr(Path, "read_text", read)


def test_pm_counters_count_whole_joules_of_a_node(tmp_path: Path) -> None:
    tree = Tree(tmp_path).cray(123_456)
    node = PmCounters(tmp_path)
    node.begin()
    tree.cray(123_999)
    assert (node.joules(), node.covers) == (543.0, "node")
    tree.cray(5)
    with pytest.raises(NotCountedError, match="went back"):
        node.joules()


def test_gpus_need_the_energy_of_all() -> None:
    class Gpus:
        readings = iter([1000.0, 1002.5, 3.0, None])

        def joules(self) -> float | None:
            return next(self.readings)

    gpus: Any = Gpus()
    counter = GpuCounter(gpus)
    counter.begin()
    assert (counter.joules(), counter.covers) == (2.5, "GPUs")
    for reason in ("went back", "no energy of all GPUs"):
        with pytest.raises(NotCountedError, match=reason):
            counter.joules()


def test_counters_that_answer_and_nonsense_is_told(tmp_path: Path) -> None:
    Tree(tmp_path).cray(1)
    two_packages(tmp_path)
    assert {*counters([], tmp_path)[0]} == {"rapl", "pm_counters"}
    (tmp_path / "cray/pm_counters/energy").write_text("n/a\n")
    found, reasons = counters([], tmp_path)
    assert list(found) == ["rapl"] and "'n/a' is no whole number" in reasons
    assert counters([], tmp_path / "nothing")[0] == {}


def meter(folder: Path, *samples: tuple[float, float], head: str = "time,watts\n", offset: int = 0) -> Path:
    """A meter's file: seconds after BEGIN, watts; times with an offset of so many hours."""
    path = folder / "meter.csv"
    shift, zone = timedelta(hours=offset), f"{offset:+03d}:00" if offset else "Z"
    lines = [f"{(BEGIN + timedelta(seconds=at) + shift).replace(tzinfo=None).isoformat()}{zone}, {watts}\n"
             for at, watts in samples]  # fmt: skip
    path.write_text(head + "".join(lines))
    return path


@pytest.mark.parametrize("head", ["", "time,watts\n"], ids=["bare", "with a header"])
@pytest.mark.parametrize("offset", [0, 2])
def test_a_meter_is_integrated_over_the_interval_by_utc(head: str, offset: int, tmp_path: Path) -> None:
    """Watts rise from 100 by 10 a second: the mean of 2.5 s to 8.5 s is 155."""
    path = meter(tmp_path, *((at, 100.0 + 10 * at) for at in range(-3, 12)), head=head, offset=offset)
    begin = BEGIN + timedelta(seconds=2.5)
    assert joules_between(path, begin, 6.0) == pytest.approx(155 * 6, abs=1e-3)
    assert joules_between(path, BEGIN, 11.0) == pytest.approx(155 * 11, abs=1e-3)


@pytest.mark.parametrize(("begin", "seconds"), [(-1.0, 5.0), (5.0, 6.0), (20.0, 1.0), (-9.0, 1.0)])
def test_an_interval_that_a_meter_does_not_cover_is_refused(begin: float, seconds: float, tmp_path: Path) -> None:
    path = meter(tmp_path, *((at, 100.0) for at in range(11)))
    with pytest.raises(NotCountedError, match="does not cover"):
        joules_between(path, BEGIN + timedelta(seconds=begin), seconds)


@pytest.mark.parametrize(
    "line", ["yesterday,100\n", "2026-03-01T12:00:30Z,nan\n", "2026-03-01T12:00:30Z,-1\n", "2026-03-01T12:00:01Z,5\n"]
)
def test_a_wrong_line_of_a_meter_is_refused_by_number(line: str, tmp_path: Path) -> None:
    path = meter(tmp_path, *((at, 100.0) for at in range(11)))
    path.write_text(path.read_text() + line)
    with pytest.raises(NotCountedError, match="line 13"):
        joules_between(path, BEGIN, 5.0)


def test_a_gap_within_the_interval_is_refused(tmp_path: Path) -> None:
    path = meter(tmp_path, (-300.0, 100.0), (-1.0, 100.0), (59.0, 100.0), (119.5, 100.0), (400.0, 100.0))
    assert joules_between(path, BEGIN, 50.0) == pytest.approx(5000)
    with pytest.raises(NotCountedError, match=r"60\.500 s between two samples"):
        joules_between(path, BEGIN, 100.0)


def test_a_time_of_a_meter_without_an_offset_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "meter.csv"
    path.write_text("2026-03-01T11:59:59Z,100\n2026-03-01T12:00:10,100\n")
    with pytest.raises(NotCountedError, match="line 2: the time needs an offset"):
        joules_between(path, BEGIN, 5.0)


def test_a_meter_that_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path):
        with pytest.raises(NotCountedError, match="no regular file"):
            joules_between(path, BEGIN, 5.0)


def test_a_meter_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotCountedError, match="No such file"):
        joules_between(tmp_path / "none.csv", BEGIN, 5.0)


def test_a_path_of_a_meter_that_the_system_refuses_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotCountedError, match="File name too long"):
        joules_between(tmp_path / (300 * "m"), BEGIN, 5.0)

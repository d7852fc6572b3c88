"""The real program with a fault in a record or a file after the measurement: file_faults.py FAULT [arguments]."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from msgspec import structs
from planting import Fault, replaced

from hpcai import recorder, run
from hpcai.machine import appended_lines
from hpcai.main import main
from hpcai.monitoring.wall_clock import WallClock
from hpcai.report import replacing
from hpcai.search import group_runner
from hpcai.training import stages
from hpcai.training.stages import PhaseAccount
from hpcai.workloads.nas.measure import _Search


def samples_altered_after_measurement() -> Fault:
    """The last test of the result gets one more sample after its scores were computed."""

    def make(genuine: Callable[..., Any]) -> Any:
        def enter(*arguments: Any) -> Any:
            result, entry = genuine(*arguments)
            work = structs.replace(entry.raw.work, samples=entry.raw.work.samples + 1)
            other = structs.replace(entry, raw=structs.replace(entry.raw, work=work))
            return structs.replace(result, tests=(*result.tests[:-1], other)), entry

        return enter

    return replaced(recorder, "enter", make)


def ranks_miscounted() -> Fault:
    """The environment has one rank more than the job."""

    def make(genuine: Callable[..., Any]) -> Any:
        def head(*arguments: Any) -> Any:
            result = genuine(*arguments)
            environment = structs.replace(result.environment, ranks=result.environment.ranks + 1)
            return structs.replace(result, environment=environment)

        return head

    return replaced(run, "_head", make)


def _without(owner: Any, name: str) -> Fault:
    """What a check returns does not reach the result."""

    def make(genuine: Callable[..., Any]) -> Any:
        def made(*arguments: Any) -> None:
            genuine(*arguments)

        return made

    return replaced(owner, name, make)


def arrivals_not_compared() -> Fault:
    """The result has nothing of what arrived at the networks."""
    return _without(stages, "delivered")


def phases_not_added_up() -> Fault:
    """The result has no sum of phases beside the time of the whole test."""
    return _without(PhaseAccount, "closed")


def second_clock_not_read() -> Fault:
    """The result has no time of the whole test by two clocks."""
    return _without(WallClock, "measured")


def network_not_checked() -> Fault:
    """The result has nothing of the comparison of the network before its first step."""
    return _without(stages._Stages, "_network_check")


def _written(file: str, change: Callable[[bytes], bytes]) -> Fault:
    """A file is written with other contents, each time."""

    def make(genuine: Callable[..., Any]) -> Any:
        def staged(path: Path, parts: Iterable[bytes]) -> Any:
            return genuine(path, [change(b"".join(parts))] if path.name == file else parts)

        return staged

    return replaced(replacing, "_staged", make)


def _last_digit_changed(data: bytes) -> bytes:
    place = max(data.rfind(b"%d" % digit) for digit in range(10))
    return data[:place] + (b"1" if data[place:][:1] != b"1" else b"2") + data[place + 1 :]


def report_written_wrong() -> Fault:
    return _written("report.txt", lambda data: data.replace(b" 1 tests completed", b" 2 tests completed"))


def result_written_wrong() -> Fault:
    return _written("result.json", lambda data: data.replace(b'"samples": ', b'"samples": 1', 1))


def series_written_short() -> Fault:
    return _written("series.h5", lambda data: data[:-100])


def kernels_written_wrong() -> Fault:
    return _written("kernels.csv", _last_digit_changed)


def sums_written_wrong() -> Fault:
    return _written("SHA256SUMS.next", _last_digit_changed)


def history_written_wrong() -> Fault:
    """Each line of the history has another number than the trial that returned."""

    def make(genuine: Callable[[Path, bytes], int]) -> Any:
        return lambda path, text: genuine(path, text.replace(b'"nbytes":', b'"nbytes":1')) and len(text)

    return replaced(appended_lines, "_write", make)


def history_altered_after_the_search() -> Fault:
    """The last line of the history is lost once the result has been made of it."""

    def make(genuine: Callable[..., Any]) -> Any:
        def finish(self: _Search, *arguments: Any) -> Any:
            measured, path = genuine(self, *arguments), self.folder / "history.jsonl"
            if self.group.active.rank == 0:
                path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
            return measured

        return finish

    return replaced(_Search, "finish", make)


def weights_written_wrong() -> Fault:
    """A bit of each file of weights is flipped after it was written."""

    def make(genuine: Callable[..., str]) -> Any:
        def save(folder: Path, trial: int, state: Any) -> str:
            digest, path = genuine(folder, trial, state), folder / f"{trial}.safetensors"
            data = bytearray(path.read_bytes())
            data[-1] ^= 1
            path.write_bytes(data)
            return digest

        return save

    return replaced(group_runner, "save_weights", make)


if __name__ == "__main__":
    with globals()[sys.argv[1]]():
        sys.exit(main(sys.argv[2:]))

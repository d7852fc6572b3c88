"""Jobs of the program whose processes are found by a mark in their environment, for other benchmarks."""

import argparse
import os
import secrets
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hosts import mpirun

from hpcai.watch import left_behind

ROOT = Path(__file__).resolve().parent.parent
MARK = "HPCAI_BENCHMARK_JOB"
RANKS = 2


class Failed(Exception):
    """A run did not do what it must."""


def asked(description: str, kills: int, cases: Iterable[str]) -> argparse.Namespace:
    """The command line of a series of kills, with so many by default."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # jobs would inherit that nohup ignores it, and not end by it
    options = argparse.ArgumentParser(description=description.partition("\n")[0])
    options.add_argument("--kills", type=int, default=kills)
    options.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    options.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(cases)}; all by default")
    return options.parse_args()


def marked(mark: str) -> dict[int, dict[str, str]]:
    """The environments of a job's living processes, by process id."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            pairs = (entry.partition("=") for entry in (path / "environ").read_text(errors="replace").split("\0"))
            variables = {name: value for name, _, value in pairs}
            if variables.get(MARK) == mark:
                found[int(path.name)] = variables
    return found


class Run:
    """A job; a context manager that leaves no process."""

    def __init__(self, folder: Path, arguments: Sequence[str], launched: Sequence[str] = ()) -> None:
        """launched: how Python is launched, by default on RANKS ranks by the mpirun of this environment."""
        self.mark, self.begun = uuid.uuid4().hex, time.monotonic()
        self.errors = folder / "stderr"
        launched = launched or [str(mpirun()), "-np", str(RANKS), sys.executable]
        command = [*launched, str(ROOT / "bench.py"), *arguments]
        with (folder / "stdout").open("a") as out, self.errors.open("a") as err:
            environment = {**os.environ, MARK: self.mark}
            self.process = subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=err)

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        while found := marked(self.mark):
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.poll()
            time.sleep(0.05)
        self.process.wait()

    def rank(self, number: int) -> int | None:
        """The process of a rank, if it is there."""
        names = ("PMI_RANK", "OMPI_COMM_WORLD_RANK")
        found = marked(self.mark).items()
        return next((pid for pid, variables in found if str(number) in map(variables.get, names)), None)

    def segments(self) -> set[str]:
        """MPI's files in shared memory that the processes have mapped."""
        return {path for pid in marked(self.mark) for path in left_behind.segments(pid)}

    def suffers(self, kind: str, number: int) -> bool:
        """Send the signal; False if its receiver is not there any more."""
        name, receiver = kind.split()
        if self.process.poll() is not None:
            return False
        if receiver == "all":
            self.kill()
            return True
        pid = self.process.pid if receiver == "mpirun" else self.rank(number)
        if pid is None:
            return False
        with suppress(ProcessLookupError):
            os.kill(pid, getattr(signal, name))
        return True

    def ends(self, seconds: float, allowed: Sequence[int] | None = None) -> int:
        """Wait for the end; the exit code. No process may be left."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failed(f"did not end in {seconds:g} s") from None
        deadline = time.monotonic() + 2
        while marked(self.mark) and time.monotonic() < deadline:
            time.sleep(0.05)
        if left := len(marked(self.mark)):
            raise Failed(f"{left} processes left")
        if allowed is not None and code not in allowed:
            printed = self.errors.with_name("stdout").read_text().splitlines()
            failed = "; ".join(line.strip() for line in printed if line.endswith("FAILED"))
            raise Failed(f"exit {code}: {failed or self.errors.read_text().strip()[-300:]}")
        return code

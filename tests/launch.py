"""Real MPI jobs for tests: started with mpirun, identified by a mark in the environment, killed completely."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BENCH = ROOT / "bench.py"
MARK = "HPCAI_TEST_JOB"
RANK_VARIABLES = ("PMI_RANK", "OMPI_COMM_WORLD_RANK")
# Left by an outer mpirun, these would make an inner job, with mpirun or without, part of the outer one.
LAUNCHER_PREFIXES = ("PMI_", "PMIX_", "HYDI_", "OMPI_COMM_", "OMPI_UNIVERSE_", "PRTE_LAUNCHED", "MPI_LOCAL")
SEGMENTS = ("mpich_shm_*", "ucx_shm_posix_*", "vader_segment.*")
GRACE = 2.0


class Finished(subprocess.CompletedProcess[str]):
    """The outcome of a job; `leftovers` are command lines of its processes that outlived it (killed by now)."""

    def __init__(self, job: "Job", returncode: int, seconds: float, leftovers: list[str]) -> None:
        super().__init__(job.arguments, returncode, *job.output())
        self.seconds = seconds
        self.leftovers = leftovers


class Job:
    """A running job; a context manager that leaves no process behind."""

    def __init__(self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str]) -> None:
        self.arguments = list(arguments)
        self._mark = uuid.uuid4().hex
        self._started = time.monotonic()
        # Files, not pipes: a process that outlives the job would keep a pipe open, and the reader waiting.
        self._files = [
            tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115, closed on exit
            for _ in range(2)
        ]
        self.process = subprocess.Popen(
            self.arguments,
            cwd=cwd,
            env={**env, MARK: self._mark},
            stdin=subprocess.DEVNULL,
            stdout=self._files[0],
            stderr=self._files[1],
        )

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for file in self._files:
            file.close()

    def output(self) -> tuple[str, str]:
        """The output on stdout and stderr until now."""
        texts = []
        for file in self._files:
            file.seek(0)
            texts.append(file.read())
            file.seek(0, os.SEEK_END)
        return texts[0], texts[1]

    def pids(self) -> list[int]:
        """All living processes of the job: mpirun, its proxies, the ranks and their child processes."""
        marked = {pid for pid in map(int, _numbers("/proc")) if environment(pid).get(MARK) == self._mark}
        # The kernel shows no environment of a program that it is still loading, and Popen does not wait for that.
        return sorted(marked | ({self.process.pid} if self.process.poll() is None else set()))

    def ranks(self) -> dict[int, int]:
        """Process id of each rank that is alive."""
        found: dict[int, int] = {}
        for pid in self.pids():
            rank = next((value for name in RANK_VARIABLES if (value := environment(pid).get(name))), None)
            if rank is not None:
                found.setdefault(int(rank), pid)
        return found

    def wait(self, timeout: float) -> Finished:
        """Wait for the end; past `timeout` seconds kill all and raise TimeoutExpired with the output."""
        try:
            returncode = self.process.wait(timeout)
        except subprocess.TimeoutExpired as expired:
            self.kill()
            expired.stdout, expired.stderr = (text.encode() for text in self.output())
            expired.add_note("".join(self.output()))
            raise
        seconds = time.monotonic() - self._started
        wait_until(lambda: not self.pids(), GRACE)
        leftovers = [command_line(pid) for pid in self.pids()]
        self.kill()
        return Finished(self, returncode, seconds, leftovers)

    def wait_while(self, progress: Callable[[], object], timeout: float) -> Finished:
        """Wait for the end as long as `progress` changes every `timeout` seconds, else `wait`."""
        known, since = progress(), time.monotonic()
        while self.process.poll() is None and time.monotonic() < since + timeout:
            if (now := progress()) != known:
                known, since = now, time.monotonic()
            time.sleep(0.02)
        return self.wait(0.0)

    def interrupt(self) -> None:
        """Ask the process that was started to end, and wait for it for some seconds."""
        self.process.send_signal(signal.SIGINT)
        wait_until(lambda: self.process.poll() is not None, GRACE)

    def kill(self) -> None:
        """Kill every process of the job; returns when none is left."""
        while pids := self.pids():
            for pid in pids:
                _kill(pid)
            self.process.poll()
            time.sleep(0.01)
        self.process.wait()


def kill_ranks(job: Job) -> None:
    """SIGKILL to all ranks."""
    for pid in job.ranks().values():
        with contextlib.suppress(ProcessLookupError):  # the launcher kills the others at once
            os.kill(pid, signal.SIGKILL)


def mpirun() -> str | None:
    """The mpirun of this Python's environment, else the one on the PATH, else None."""
    own_mpirun = Path(sys.executable).with_name("mpirun")
    return str(own_mpirun) if own_mpirun.exists() else shutil.which("mpirun") or shutil.which("mpiexec")


def start_job(
    args: Sequence[str | os.PathLike[str]],
    ranks: int | None = 2,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
) -> Job:
    """Start `python *args` on `ranks` ranks, or without mpirun if None; `env` is added to this environment.

    If there are fewer GPUs than ranks, the GPUs are hidden: ranks do not share them.
    """
    launcher = [] if ranks is None else [str(mpirun()), "-np", str(ranks)]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHER_PREFIXES)}
    path = os.pathsep.join(filter(None, [str(ROOT), inherited.get("PYTHONPATH")]))
    return Job(
        [*launcher, sys.executable, *map(os.fspath, args)],
        cwd,
        {**inherited, **hidden(ranks or 1), "PYTHONPATH": path, **(env or {})},
    )


def hidden(ranks: int) -> dict[str, str]:
    """Variables that hide the GPUs of this machine, if it has some but fewer than ranks."""
    return {"CUDA_VISIBLE_DEVICES": ""} if 0 < _gpus() < ranks else {}


@cache
def _gpus() -> int:
    """GPUs that jobs may use here."""
    gpus = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True) if shutil.which("nvidia-smi") else None
    there = sum(line.startswith("GPU ") for line in gpus.stdout.splitlines()) if gpus else 0
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return there if named is None else min(there, len(named.split(",")) * bool(named))


def run_job(
    args: Sequence[str | os.PathLike[str]],
    ranks: int | None = 2,
    cwd: Path = ROOT,
    timeout: float = 300.0,
    env: Mapping[str, str] | None = None,
) -> Finished:
    """`start_job`, then wait for its end."""
    with start_job(args, ranks, cwd, env) as job:
        return job.wait(timeout)


def wait_until(condition: Callable[[], object], timeout: float) -> bool:
    """Whether the condition came true within `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def sweep_shared_memory(since: float) -> None:
    """Remove segments made after `since` that no process has mapped: killed or aborted jobs leave them behind."""
    now = time.time()
    files = [path for pattern in SEGMENTS for path in Path("/dev/shm").glob(pattern)]
    mapped = "".join(_read(int(pid), "maps") for pid in _numbers("/proc"))
    for path in files:
        with contextlib.suppress(OSError):
            status = path.stat()
            # A younger one may belong to a job that is just starting and has not mapped it yet.
            if since <= status.st_mtime < now - 2 and status.st_uid == os.getuid() and path.name not in mapped:
                path.unlink()


def environment(pid: int) -> dict[str, str]:
    """The initial environment of a process; empty if the process is gone or another user's."""
    pairs = (entry.partition("=") for entry in _read(pid, "environ").split("\0"))
    return {name: value for name, _, value in pairs}


def command_line(pid: int) -> str:
    """The command of a process, as `ps` prints it."""
    return _read(pid, "cmdline").replace("\0", " ").strip()


def _numbers(folder: str) -> list[str]:
    return [name for name in os.listdir(folder) if name.isdecimal()]


def _read(pid: int, file: str) -> str:
    try:
        return Path(f"/proc/{pid}/{file}").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)

"""`@pytest.mark.parallel(4)`: the test is launched again under `mpirun -np 4`, where every rank runs it.

The outer test passes if each rank reports that it passed; a rank that fails reports why, then ends the whole job.
A job takes seconds to start, so all tests of so many ranks share one, whatever their file, as long as none fails; the
others are then launched again. These jobs run in the background, one at a time, while this process runs the tests that
need no ranks; those on ranks come last. A test that needs new processes is marked `alone`. After these jobs a second
process runs the files whose tests start jobs themselves, in the background too, since this process would only wait.
"""

import gc
import json
import os
import re
import signal
import sys
import time
from collections.abc import Generator
from pathlib import Path

import hypothesis
import pytest
from launch import mpirun, sweep_shared_memory
from sampled_parameters import mark_many
from shared_jobs import MANY, RANKS, REPORTS, SharedJobs, starts_jobs

# Time in which other failing ranks can report, before the first of them ends the job.
FLUSH_SECONDS = 1.0
INSIDE = REPORTS in os.environ  # this is a process in the background
ON_RANKS = RANKS in os.environ
NEEDS_GPU = re.compile(r"NO (\d+ )?GPUs?: ")  # the reason of a skipped test begins with it
STARTED = pytest.StashKey[float]()
JOBS = pytest.StashKey[SharedJobs]()
ELSEWHERE = pytest.StashKey[bool]()  # of a test that runs in the background

# No time limits in tests; and ranks must all draw the same examples.
hypothesis.settings.register_profile("project", deadline=None, derandomize=INSIDE)
hypothesis.settings.load_profile("project")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--ranks", type=int, help="run MPI tests on this many ranks instead of their own number")


def pytest_configure(config: pytest.Config) -> None:
    if INSIDE:
        config.pluginmanager.register(Rank() if ON_RANKS else Reporter(), "reporter")
    if not ON_RANKS:
        heed_interrupts()
        keep_bytecode()
        compute_alone()
        os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parent.parent / "kernels" / "__pycache__"))


def heed_interrupts() -> None:
    """Let this process and its jobs be interrupted, even where a shell started it in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # which jobs would inherit
        signal.signal(signal.SIGINT, signal.default_int_handler)


def keep_bytecode() -> None:
    """Let this process and its jobs keep compiled modules, even where the environment forbids it."""
    # Each of over a hundred processes would compile some hundred modules: a second or two.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def compute_alone() -> None:
    """One thread in the runner's own process; ranks choose their number of threads before they import torch."""
    # Networks of tests are so small that threads mostly wait for one another: seconds on busy processors.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENBLAS_NUM_THREADS", "1")  # read by NumPy's library when it is loaded
        import torch

    torch.set_num_threads(1)


def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.stash[STARTED] = time.time()


def pytest_sessionfinish(session: pytest.Session) -> None:
    if JOBS in session.config.stash:
        session.config.stash[JOBS].end()
    if not INSIDE:
        sweep_shared_memory(session.config.stash[STARTED])


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if launches(item):
            runs_elsewhere(item)
        if any(NEEDS_GPU.match(mark.kwargs.get("reason", "")) for mark in item.iter_markers("skipif")):
            item.add_marker("gpu")
    mark_many(items)
    items.sort(key=launches)


def pytest_collection_finish(session: pytest.Session) -> None:
    resume_collection()
    if mpirun() and not session.config.option.collectonly:
        on_ranks = [item for item in session.items if launches(item)]
        starting = starting_jobs(session.items)
        for item in starting:
            runs_elsewhere(item)
        session.items.sort(key=lambda item: (ELSEWHERE in item.stash, item in starting))
        session.config.stash[JOBS] = SharedJobs(on_ranks, starting)


def starting_jobs(items: list[pytest.Item]) -> list[pytest.Item]:
    """The tests that start jobs, if many others are run beside them."""
    alone = [item for item in items if not INSIDE and not launches(item)]
    starting = [item for item in alone if starts_jobs(item)]
    return starting if len(alone) - len(starting) >= MANY else []


def runs_elsewhere(item: pytest.Item) -> None:
    """The test runs in a process in the background, and its fixtures are created there."""
    item.fixturenames = []  # type: ignore[attr-defined]
    item.stash[ELSEWHERE] = True


def resume_collection() -> None:
    """Exempt loaded objects from garbage collection, as the program does: each collection takes 0.2 s."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if ELSEWHERE not in pyfuncitem.stash:
        return None
    if mpirun() is None:
        pytest.skip(f"NO mpirun next to {sys.executable} or on the PATH: MPI TEST NOT RUN")
    pyfuncitem.config.stash[JOBS].launched(pyfuncitem).evaluate(pyfuncitem.nodeid)
    return True


def launches(item: pytest.Item) -> bool:
    """Whether the test has to be launched again, on ranks."""
    return not INSIDE and item.get_closest_marker("parallel") is not None


class Reporter:
    """In a process in the background: reports the verdict on each test."""

    rank = 0

    def __init__(self) -> None:
        # Not inherited: jobs that the tests start are not in the background of these tests.
        self.folder = Path(os.environ[REPORTS] if ON_RANKS else os.environ.pop(REPORTS))
        self.count = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.failed or (report.when == "setup" and report.skipped) or report.when == "call":
            self.outcome = {"verdict": report.outcome, "text": text_of(report)}
        return report

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.report(nodeid)

    def report(self, test: str) -> None:
        """Write this process's outcome of a test."""
        path = self.folder / f"{self.count:05d}-{self.rank:03d}.json"
        path.with_suffix(".part").write_text(json.dumps({"test": test, "rank": self.rank, **self.outcome}))
        path.with_suffix(".part").rename(path)
        self.count += 1


class Rank(Reporter):
    """Inside the job: reports the verdict of this rank, and ends the job if it failed."""

    def __init__(self) -> None:
        from mpi4py import MPI

        super().__init__()
        self.world = MPI.COMM_WORLD
        self.rank = self.world.rank
        self.had_torch = False

    def pytest_sessionstart(self) -> None:
        if self.world.size != int(os.environ[RANKS]):
            pytest.exit(f"mpirun started {os.environ[RANKS]} ranks, MPI_COMM_WORLD has {self.world.size}", 1)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield from super().pytest_runtest_makereport()
        if report.failed:
            self.report(report.nodeid)
            time.sleep(FLUSH_SECONDS)
            self.world.Abort(1)
            os._exit(1)  # it may return before the signal arrives that ends this rank as well
        return report

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        if not self.had_torch and "torch" in sys.modules:
            self.had_torch = True
            resume_collection()
        super().pytest_runtest_logfinish(nodeid)
        from hpcai.comm.world import sleeping_barrier

        sleeping_barrier(self.world)  # no rank begins another test that this failure would end


def text_of(report: pytest.TestReport) -> str:
    """Why a test failed, with its output, or why it was skipped."""
    if report.skipped and isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return "\n".join([report.longreprtext, *(f"{title}\n{text}" for title, text in report.sections)])

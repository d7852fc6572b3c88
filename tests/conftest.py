"""`@pytest.mark.parallel(4)`: the one test is launched again under `mpirun -np 4`, where every rank runs it.

The outer test passes if each rank reports that it passed; a rank that fails reports why, then ends the whole job.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

import hypothesis
import pytest
from launch import mpirun, run_job, sweep_shared_memory

REPORTS = "HPCAI_TEST_REPORTS"
RANKS = "HPCAI_TEST_RANKS"
# The first test that calls our kernels compiles them: over a minute on a slow machine.
TIMEOUT = 300.0
# For other ranks that fail as well to say so, before the first of them ends the job.
LAST_WORDS = 1.0
INSIDE = REPORTS in os.environ
STARTED = pytest.StashKey[float]()

# No time limits in tests; and ranks must all draw the same examples.
hypothesis.settings.register_profile("project", deadline=None, derandomize=INSIDE)
hypothesis.settings.load_profile("project")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--ranks", type=int, help="run MPI tests on this many ranks instead of their own number")


def pytest_configure(config: pytest.Config) -> None:
    if INSIDE:
        config.pluginmanager.register(Rank(), "rank")
    else:
        compute_alone()


def compute_alone() -> None:
    """One thread in the runner's own process; ranks are to choose theirs before they import torch."""
    # Networks of tests are so small that threads wait for one another: seconds where others use the processors as well.
    import torch

    torch.set_num_threads(1)


def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.stash[STARTED] = time.time()


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not INSIDE:
        sweep_shared_memory(session.config.stash[STARTED])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if launches(item):
            item.fixturenames = []  # made where the test runs: on the ranks


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not launches(pyfuncitem):
        return None
    marker = pyfuncitem.get_closest_marker("parallel")
    assert marker
    run_on_ranks(pyfuncitem, **dict(zip(("ranks", "timeout"), marker.args, strict=False)), **marker.kwargs)
    return True


def launches(item: pytest.Item) -> bool:
    """Whether the test is to be launched again, on ranks."""
    return not INSIDE and item.get_closest_marker("parallel") is not None


def run_on_ranks(item: pytest.Function, ranks: int, timeout: float = TIMEOUT) -> None:
    """Run the test on `ranks` ranks; fails or skips as they do."""
    if mpirun() is None:
        pytest.skip(f"NO mpirun beside {sys.executable} or on the PATH: MPI TEST NOT RUN")
    ranks = item.config.getoption("--ranks") or ranks
    # Only just before the end: what it reads of running threads may end the process by a segmentation fault.
    hung = f"faulthandler_timeout={max(timeout - 10.0, 0.5 * timeout)}"
    arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", hung, item.nodeid]
    threads = os.environ.get("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        environment = {REPORTS: folder, RANKS: str(ranks), "OMP_NUM_THREADS": threads}
        try:
            job = run_job(arguments, ranks, item.config.rootpath, timeout, environment)
        except subprocess.TimeoutExpired as late:
            output = f"{late.stdout.decode()}{late.stderr.decode()}"
            pytest.fail(f"no end after {timeout} s on {ranks} ranks\n{told(folder)}\n{output}", pytrace=False)
        judge(folder, ranks, job)


def judge(folder: str, ranks: int, job: subprocess.CompletedProcess[str]) -> None:
    """Pass only if every rank said that it passed."""
    said = outcomes(folder)
    verdicts = [outcome["verdict"] for outcome in said.values()]
    if job.returncode or len(verdicts) != ranks or "failed" in verdicts:
        summary = f"{len(verdicts)} of {ranks} ranks reported; mpirun returned {job.returncode}"
        pytest.fail(f"{summary}\n{told(folder)}\n{job.stdout}{job.stderr}", pytrace=False)
    if set(verdicts) == {"skipped"}:
        pytest.skip(said["0"]["text"])


def outcomes(folder: str) -> dict[str, dict[str, str]]:
    """Verdict and text by rank, of the ranks that reported."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(Path(folder).glob("*.json"))}


def told(folder: str) -> str:
    """What the ranks that failed said."""
    return "\n".join(
        f"--- rank {rank}\n{outcome['text']}"
        for rank, outcome in outcomes(folder).items()
        if outcome["verdict"] == "failed"
    )


class Rank:
    """Inside the job: reports the verdict of this rank, and takes the job down if it failed."""

    def __init__(self) -> None:
        from mpi4py import MPI

        self.world = MPI.COMM_WORLD
        self.verdict, self.text = "failed", "the test did not run"

    def pytest_sessionstart(self) -> None:
        if self.world.size != int(os.environ[RANKS]):
            pytest.exit(f"mpirun started {os.environ[RANKS]} ranks, MPI_COMM_WORLD has {self.world.size}", 1)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.when == "call" or not report.passed:
            self.verdict, self.text = report.outcome, text_of(report)
        if report.failed:
            self.pytest_sessionfinish()
        return report

    def pytest_sessionfinish(self) -> None:
        path = Path(os.environ[REPORTS]) / f"{self.world.rank}.json"
        path.with_suffix(".part").write_text(json.dumps({"verdict": self.verdict, "text": self.text}))
        path.with_suffix(".part").rename(path)
        if self.verdict == "failed":
            time.sleep(LAST_WORDS)
            self.world.Abort(1)


def text_of(report: pytest.TestReport) -> str:
    """Why a test failed, with what it printed, or why it was skipped."""
    if report.skipped and isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return "\n".join([report.longreprtext, *(f"{title}\n{text}" for title, text in report.sections)])

"""`@pytest.mark.parallel(4)`: the test is launched again under `mpirun -np 4`, where every rank runs it.

The outer test passes if each rank reports that it passed; a rank that fails reports why, then ends the whole job.
A job takes seconds to start, so all tests of so many ranks share one, whatever their file, as long as none fails; the
others are then launched again. A test that needs new processes is marked `alone`.
"""

import gc
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis
import pytest
from launch import mpirun, start_job, sweep_shared_memory

REPORTS = "HPCAI_TEST_REPORTS"
RANKS = "HPCAI_TEST_RANKS"
# The first test that calls our kernels compiles them: over a minute on a slow machine.
TIMEOUT = 300.0
# For other ranks that fail as well to say so, before the first of them ends the job.
FLUSH_SECONDS = 1.0
INSIDE = REPORTS in os.environ
NEEDS_GPU = re.compile(r"NO (\d+ )?GPUs?: ")  # begins the reason why a test is skipped without one
STARTED = pytest.StashKey[float]()
KNOWN = pytest.StashKey[dict[str, "Launched"]]()

# No time limits in tests; and ranks must all draw the same examples.
hypothesis.settings.register_profile("project", deadline=None, derandomize=INSIDE)
hypothesis.settings.load_profile("project")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--ranks", type=int, help="run MPI tests on this many ranks instead of their own number")


def pytest_configure(config: pytest.Config) -> None:
    if INSIDE:
        config.pluginmanager.register(Rank(), "rank")
    else:
        keep_bytecode()
        compute_alone()
        os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parent.parent / "kernels" / "__pycache__"))


def keep_bytecode() -> None:
    """Let this process and its jobs keep compiled modules, even where the environment says otherwise."""
    # Each of over a hundred processes would compile some hundred modules: a second or two.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


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


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if launches(item):
            item.fixturenames = []  # made where the test runs: on the ranks
        if any(NEEDS_GPU.match(mark.kwargs.get("reason", "")) for mark in item.iter_markers("skipif")):
            item.add_marker("gpu")


def pytest_collection_finish() -> None:
    keep_loaded()


def keep_loaded() -> None:
    """Let collections pass over what is loaded, as the program does: each takes 0.2 s, and some tests ask for many."""
    gc.collect()
    gc.freeze()


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
    """Run the test on `ranks` ranks, unless it ran together with another; fails or skips as they do."""
    if mpirun() is None:
        pytest.skip(f"NO mpirun beside {sys.executable} or on the PATH: MPI TEST NOT RUN")
    known = item.config.stash.setdefault(KNOWN, {})
    if item.nodeid not in known:
        ranks = item.config.getoption("--ranks") or ranks
        batch = [item, *companions(item)]
        launched = launch(batch, ranks, timeout)
        known |= {other.nodeid: launched for other in batch if other is item or launched.whole(other.nodeid)}
    known.pop(item.nodeid).judge(item.nodeid)


def companions(item: pytest.Function) -> list[pytest.Item]:
    """Tests that come later and may share the job."""
    if item.get_closest_marker("alone"):
        return []
    later = item.session.items[item.session.items.index(item) + 1 :]
    wanted = item.get_closest_marker("parallel")
    same = [other for other in later if other.get_closest_marker("parallel") == wanted]
    return [other for other in same if not other.get_closest_marker("alone")]


def launch(batch: Sequence[pytest.Item], ranks: int, timeout: float) -> "Launched":
    """Run tests one after the other in one job, until one fails or takes longer than `timeout`."""
    # Only just before the end: what it reads of running threads may end the process by a segmentation fault.
    hung = f"faulthandler_timeout={max(timeout - 10.0, 0.5 * timeout)}"
    chosen = [item.nodeid for item in batch]
    # -m: the tests are chosen already, and some of them by a mark that the project's own options exclude.
    arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", hung, "-m", "", *chosen]
    threads = os.environ.get("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        environment = {REPORTS: folder, RANKS: str(ranks), "OMP_NUM_THREADS": threads}
        with start_job(arguments, ranks, batch[0].config.rootpath, environment) as job:
            try:
                finished = job.wait_while(lambda: len(os.listdir(folder)), timeout)
                output, code = f"{finished.stdout}{finished.stderr}", str(finished.returncode)
            except subprocess.TimeoutExpired as late:
                output, code = f"{late.stdout.decode()}{late.stderr.decode()}", f"no end after {timeout} s"
        reports = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("*.json"))]
    return Launched(ranks, reports, code, output)


class Launched(NamedTuple):
    """What the ranks of a job reported, each of each test, and how the job ended."""

    ranks: int
    reports: list[dict[str, Any]]
    code: str
    output: str

    def of(self, test: str) -> list[dict[str, Any]]:
        """The reports of one test."""
        return [report for report in self.reports if report["test"] == test]

    def whole(self, test: str) -> bool:
        """Whether all ranks have run it to its end, so that it need not run again."""
        verdicts = [report["verdict"] for report in self.of(test)]
        return len(verdicts) == self.ranks and "failed" not in verdicts

    def judge(self, test: str) -> None:
        """Pass only if every rank said that it passed."""
        found = self.of(test)
        if not self.whole(test):
            failed = [f"--- rank {each['rank']}\n{each['text']}" for each in found if each["verdict"] == "failed"]
            summary = f"{len(found)} of {self.ranks} ranks reported; mpirun: {self.code} on {self.ranks} ranks"
            pytest.fail("\n".join([summary, *failed, self.output]), pytrace=False)
        if {report["verdict"] for report in found} == {"skipped"}:
            pytest.skip(found[0]["text"])


class Rank:
    """Inside the job: reports the verdict of this rank, and takes the job down if it failed."""

    def __init__(self) -> None:
        from mpi4py import MPI

        self.world = MPI.COMM_WORLD
        self.count = 0
        self.had_torch = False

    def pytest_sessionstart(self) -> None:
        if self.world.size != int(os.environ[RANKS]):
            pytest.exit(f"mpirun started {os.environ[RANKS]} ranks, MPI_COMM_WORLD has {self.world.size}", 1)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.failed or (report.when == "setup" and report.skipped) or report.when == "call":
            self.told = {"verdict": report.outcome, "text": text_of(report)}
        if report.failed:
            self.report(report.nodeid)
            time.sleep(FLUSH_SECONDS)
            self.world.Abort(1)
            os._exit(1)  # it may return before the signal that ends this rank as well comes
        return report

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        if not self.had_torch and "torch" in sys.modules:
            self.had_torch = True
            keep_loaded()
        self.report(nodeid)
        self.world.Barrier()  # nobody begins another test that this one's failure would end

    def report(self, test: str) -> None:
        """Say what this rank found."""
        path = Path(os.environ[REPORTS]) / f"{self.count:03d}-{self.world.rank:03d}.json"
        path.with_suffix(".part").write_text(json.dumps({"test": test, "rank": self.world.rank, **self.told}))
        path.with_suffix(".part").rename(path)
        self.count += 1


def text_of(report: pytest.TestReport) -> str:
    """Why a test failed, with what it printed, or why it was skipped."""
    if report.skipped and isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return "\n".join([report.longreprtext, *(f"{title}\n{text}" for title, text in report.sections)])

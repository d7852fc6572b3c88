"""Background processes of a test session, one at a time: jobs that tests on ranks share, and tests that start jobs.

A job on ranks ends at a failed test; the tests after it are launched again.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from launch import Job, start_job

REPORTS = "HPCAI_TEST_REPORTS"
RANKS = "HPCAI_TEST_RANKS"
# The first test that calls custom kernels compiles them: over a minute on a slow machine.
TIMEOUT = 300.0
# Tests that start jobs run in a second process if so many others are run beside them.
MANY = 1000
STARTERS = {
    *("run_job", "start_job", "python", "bench", "live_run", "weather_run", "failing_run", "REAL_RUNS", "Sweeps"),
    *("Job", "Watched", "Cluster", "Hosts"),  # a shell, a browser, Slurm, network namespaces
}
# Files that are run beside the others too, so that both processes have as much to do.
BESIDE = {"test_checkpoint", "test_consistency_comparison", "test_frozen"}
BESIDE |= {"test_ranking", "test_ranking_acceptance", "test_ranking_hostile"}
# For the same reason, files that start jobs and are run among the others: all of it is slow.
AMONG = {"test_kills", "test_language_faults", "test_outlasting"}
AMONG |= {"test_resume", "test_search_resume", "test_step_faults"}


class Launched(NamedTuple):
    """The reports of a job's ranks on each test, and how the job ended."""

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

    def evaluate(self, test: str) -> None:
        """Pass only if every rank reported that it passed."""
        found = self.of(test)
        if not self.whole(test):
            failed = [f"--- rank {each['rank']}\n{each['text']}" for each in found if each["verdict"] == "failed"]
            summary = f"{len(found)} of {self.ranks} ranks reported; mpirun: {self.code} on {self.ranks} ranks"
            reported = len(found) == self.ranks == 1  # the output is that of all tests of the process
            pytest.fail("\n".join(failed if reported else [summary, *failed, self.output]), pytrace=False)
        if {report["verdict"] for report in found} == {"skipped"}:
            pytest.skip(found[0]["text"])


class SharedJobs:
    """One job for all tests with the same number of ranks and time limit; one for each test that is marked `alone`."""

    def __init__(self, items: Sequence[pytest.Item], starting: Sequence[pytest.Item]) -> None:
        self.items = items
        self.environment = dict(os.environ)  # a test that runs when a job is started may have changed it
        self.running: Job | None = None
        self.pool = ThreadPoolExecutor(1)
        self.jobs: dict[str, Future[Launched]] = {}
        for item in items:
            if item.nodeid not in self.jobs and not item.get_closest_marker("alone"):
                batch = self._batch(item)
                self.jobs |= dict.fromkeys((each.nodeid for each in batch), self.pool.submit(self._launch, batch))
        self.starting = self.pool.submit(self._run, starting, None, 2 * TIMEOUT) if starting else None

    def launched(self, item: pytest.Item) -> Launched:
        """The job that ran the test to its end, else a new one that begins with it."""
        if self.starting and not item.get_closest_marker("parallel"):
            return self.starting.result()
        if item.nodeid in self.jobs and (found := self.jobs[item.nodeid].result()).whole(item.nodeid):
            return found
        batch = self._batch(item)
        again: Future[Launched] = Future()
        again.set_result(self._launch(batch))
        self.jobs |= dict.fromkeys((each.nodeid for each in batch), again)
        return again.result()

    def end(self) -> None:
        """Kill the jobs that still run: their reports are not needed any more."""
        self.pool.shutdown(wait=False, cancel_futures=True)
        if running := self.running:  # read once: the pool's thread clears it when the job ends
            running.interrupt()  # a process that starts jobs ends them itself
            running.kill()
        self.pool.shutdown()

    def _batch(self, item: pytest.Item) -> list[pytest.Item]:
        """The test and those later ones that share its job."""
        if item.get_closest_marker("alone"):
            return [item]
        later = self.items[self.items.index(item) :]
        return [each for each in later if asked(each) == asked(item) and not each.get_closest_marker("alone")]

    def _launch(self, batch: Sequence[pytest.Item]) -> Launched:
        """Run tests on ranks in sequence in one job, until one fails or takes longer than the time limit."""
        return self._run(batch, *asked(batch[0]))

    def _run(self, batch: Sequence[pytest.Item], ranks: int | None, timeout: float) -> Launched:
        """Run tests in sequence in one job; without ranks, in a process."""
        # Only just before the end: reading the stacks of running threads may cause a segmentation fault.
        hung = f"faulthandler_timeout={max(timeout - 10.0, 0.5 * timeout)}"
        # -m: the tests are chosen already, and some of them by a mark that the project's own options exclude.
        arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", hung, "-m", ""]
        with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile("w", encoding="utf-8") as chosen:
            chosen.write("\n".join(item.nodeid for item in batch))
            chosen.flush()
            environment = {**self.environment, REPORTS: folder}
            if ranks is not None:
                environment = {"OMP_NUM_THREADS": "1", **environment, RANKS: str(ranks)}
            arguments.append(f"@{chosen.name}")
            with start_job(arguments, ranks, batch[0].config.rootpath, environment) as self.running:
                code, output = _ended(self.running, Path(folder), timeout)
            reports = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("*.json"))]
        self.running = None
        return Launched(ranks or 1, reports, code, output)


def starts_jobs(item: pytest.Item) -> bool:
    """Whether tests of the item's file are run beside the others: they start jobs or processes of the program."""
    module = item.module  # type: ignore[attr-defined]
    return module.__name__ not in AMONG and (module.__name__ in BESIDE or not STARTERS.isdisjoint(vars(module)))


def asked(item: pytest.Item) -> tuple[int, float]:
    """The number of ranks and the time limit of a test."""
    marker = item.get_closest_marker("parallel")
    assert marker
    ranks = item.config.getoption("--ranks") or marker.args[0]
    return int(ranks), float(marker.kwargs.get("timeout", TIMEOUT))


def _ended(job: Job, folder: Path, timeout: float) -> tuple[str, str]:
    """The exit code and the output of a job that writes a file into a folder for every test that ended."""
    try:
        finished = job.wait_while(lambda: len(os.listdir(folder)), timeout)
        return str(finished.returncode), f"{finished.stdout}{finished.stderr}"
    except subprocess.TimeoutExpired as late:
        return f"no end after {timeout:g} s", f"{late.stdout.decode()}{late.stderr.decode()}"

"""The tests' own launcher: jobs report their end and output, and are killed completely."""

import mmap
import os
import signal
import subprocess
from pathlib import Path

import pytest
from launch import command_line, mpirun, run_job, start_job, sweep_shared_memory, wait_until

needs_mpirun = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: MPI TESTS NOT RUN")

# One write per line, or two ranks' lines can mix.
PROGRAM = r"from mpi4py import MPI; c = MPI.COMM_WORLD; print(f'rank {c.rank} of {c.size}\n', end='', flush=True)"


@needs_mpirun
def test_job_reports_output_and_exit_code() -> None:
    finished = run_job(["-c", PROGRAM + "; import sys; sys.exit(3 * (c.rank == 0))"], ranks=2)
    assert sorted(finished.stdout.split("\n")) == ["", "rank 0 of 2", "rank 1 of 2"]
    assert finished.returncode == 3
    assert finished.leftovers == []


@needs_mpirun
def test_a_job_beyond_its_time_limit_is_killed_completely() -> None:
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(99)'])"
    with start_job(["-c", f"{PROGRAM}; {child}"], ranks=2) as job:
        assert wait_until(lambda: job.output()[0].count("of 2") == 2 and len(job.pids()) >= 5, 30)
        pids = job.pids()
        with pytest.raises(subprocess.TimeoutExpired) as late:
            job.wait(0.1)
    assert b"rank 0 of 2" in late.value.stdout
    assert not any("time.sleep(99)" in command_line(pid) for pid in pids)


@needs_mpirun
def test_a_rank_can_be_found_and_killed() -> None:
    with start_job(["-c", PROGRAM + "; c.Barrier(); import time; time.sleep(99)"], ranks=2) as job:
        assert wait_until(lambda: job.output()[0].count("of 2") == 2, 30)
        assert sorted(job.ranks()) == [0, 1]
        os.kill(job.ranks()[1], signal.SIGKILL)
        assert job.wait(30).returncode != 0


@pytest.mark.slow
def test_a_process_that_outlives_its_job_is_reported() -> None:
    daemon = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)'])"
    finished = run_job(["-c", daemon], ranks=None)
    assert len(finished.leftovers) == 1 and "time.sleep(99)" in finished.leftovers[0]


def test_processes_are_assigned_to_their_own_job() -> None:
    with start_job(["-c", "input()"], None), start_job(["-c", "import time; time.sleep(99)"], None) as second:
        assert second.pids() == [second.process.pid]


def test_a_job_inside_a_job_is_independent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PMI_SIZE", "7")
    assert run_job(["-c", "import os; print(os.environ.get('PMI_SIZE'))"], ranks=None).stdout == "None\n"


def test_only_unused_shared_memory_is_removed() -> None:
    paths = [Path(f"/dev/shm/mpich_shm_test_{os.getpid()}_{number}") for number in range(4)]
    used, left, older, younger = paths
    try:
        for path in paths:
            path.write_bytes(bytes(4096))
        for path in (used, left):
            os.utime(path, (1000, 1000))
        os.utime(older, (900, 900))
        with used.open("r+b") as file, mmap.mmap(file.fileno(), 4096):
            sweep_shared_memory(since=950)
        assert [path.exists() for path in paths] == [True, False, True, True]
        assert younger.stat().st_mtime > 1000
    finally:
        for path in paths:
            path.unlink(missing_ok=True)

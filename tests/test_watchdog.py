"""Ranks that are stopped or stuck are found, named, and end the job; honest ranks that are slow are not."""

import os
import re
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from job_folder import END, START, prepared
from launch import BENCH, ROOT, Finished, Job, mpirun, run_job, start_job, wait_until
from sampled_parameters import EXHAUSTIVE, one_in, slow

from hpcai.report import checksums
from hpcai.watch import left_behind

needs_mpirun = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: WATCHDOG NOT TESTED")
FAILING = ROOT / "tests" / "jobs" / "failing.py"
GROUP, MODELS, BOTH = "GROUPS=1 DEGREE=2", "GROUPS=2 DEGREE=1", "GROUPS=2 DEGREE=2"
ENV = {"OMP_NUM_THREADS": "1"}
LONG = "EPOCHS=100000"


def ended_by(job: Finished, folder: Path, said: str) -> None:
    """The job has ended, no process is left, the last line and the folder say why, and the folder how to go on."""
    assert job.returncode != 0 and job.leftovers == []
    assert "End of Tests." not in job.stdout
    *before, line = job.stderr.splitlines()
    assert re.fullmatch(f"hpcai: {said}", line), job.stderr
    (made,) = (folder / "results").iterdir()
    assert before[-1] == f"hpcai: to go on: bench.py --resume {made}"
    written = (made / checksums.BROKEN_OFF).read_text().splitlines()
    assert written[1:] == [
        f"what: {line[7:]}",
        "test: 1 (ensemble) was not finished",
        f"resume: bench.py --resume {made}",
    ]
    assert run_job([BENCH, "--verify", made], None, folder).returncode == 0


def named(rank: int, group: int, how: str, where: str) -> str:
    return rf"rank {rank} on {socket.gethostname()}, group {group}, {how} for \d+ s in test 1 \(ensemble\), {where}"


STOPPED, STUCK = "was stopped by a signal", "made no step"


@needs_mpirun
@pytest.mark.parametrize(
    ("ranks", "fault", "settings", "how", "where"),
    [
        (2, "1 training 9 stop", MODELS, STOPPED, "training, epoch 2"),
        (2, "1 training 6 hang", GROUP, STUCK, "training, epoch 2"),
        pytest.param(2, "0 training 9 stop", GROUP, STOPPED, "training, epoch 3", marks=pytest.mark.slow),
        pytest.param(2, "0 training 9 hang-in-library", MODELS, STUCK, "training, epoch 2", marks=EXHAUSTIVE),
        pytest.param(2, "1 set-up 1 stop", GROUP, STOPPED, "residuals", marks=pytest.mark.slow),
        pytest.param(2, "1 validating 1 stop", MODELS, STOPPED, "validation, epoch 1", marks=pytest.mark.exhaustive),
        pytest.param(4, "3 training 6 hang", BOTH, STUCK, "training, epoch 2", marks=pytest.mark.exhaustive),
        pytest.param(4, "2 loading 20 hang", BOTH, STUCK, "(training|valid|replay).*", marks=pytest.mark.exhaustive),
    ],
)
def test_a_rank_that_is_stopped_or_stuck_is_named_and_ends_the_job(
    tmp_path: Path, ranks: int, fault: str, settings: str, how: str, where: str
) -> None:
    arguments = [FAILING, *fault.split(), "--set", *settings.split(), LONG, "WATCHDOG=2"]
    with start_job(arguments, ranks, prepared(tmp_path), ENV) as job:
        assert wait_until(lambda: (tmp_path / "failed").exists(), START), job.output()
        finished = job.wait(END)
    rank = int(fault[0])
    ended_by(finished, tmp_path, named(rank, rank * 2 // ranks if settings != GROUP else 0, how, where))
    others = {*range(ranks)} - ({rank} if how == STOPPED else set())
    stacks = set(map(int, re.findall(r"hpcai: stacks of rank (\d) on", finished.stderr)))
    assert stacks == others and finished.stderr.count("most recent call first") >= len(others)
    assert how == STOPPED or re.search(r"in hang(_in_library)?\n", finished.stderr)


@pytest.mark.slow
@needs_mpirun
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_is_stopped_after_its_last_line_ends_the_job_with_a_complete_result(
    tmp_path: Path, rank: int
) -> None:
    arguments = [FAILING, str(rank), "leaving", "1", "stop", "--set", *MODELS.split(), "WATCHDOG=2"]
    with start_job(arguments, 2, prepared(tmp_path), ENV) as job:
        assert wait_until(lambda: (tmp_path / "failed").exists(), START), job.output()
        finished = job.wait(END)
    assert finished.returncode != 0 and finished.leftovers == [] and "End of Tests." in finished.stdout
    line = rf"hpcai: rank {rank} on {socket.gethostname()} was stopped by a signal for \d+ s outside of the tests"
    assert re.fullmatch(line, finished.stderr.splitlines()[-1]), finished.stderr
    (made,) = (tmp_path / "results").iterdir()
    assert not (made / checksums.BROKEN_OFF).exists()
    assert run_job([BENCH, "--verify", made], None, tmp_path).returncode == 0


PAUSES = ["0 validating 2 pause", "1 set-up 1 pause", "1 voting 1 pause"]


@pytest.mark.slow
@needs_mpirun
@pytest.mark.parametrize("fault", one_in(3, PAUSES))
def test_what_takes_long_outside_of_steps_is_not_ended(tmp_path: Path, fault: str) -> None:
    """The watchdog allows less than that pause."""
    arguments = [FAILING, *fault.split(), "--set", *MODELS.split(), "EPOCHS=3", "WATCHDOG=2"]
    finished = run_job(arguments, 2, prepared(tmp_path), START, ENV)
    assert finished.returncode == 0 and "End of Tests." in finished.stdout, finished.stderr
    (made,) = (tmp_path / "results").iterdir()
    assert not (made / checksums.BROKEN_OFF).exists()


@pytest.mark.slow
@needs_mpirun
def test_a_killed_job_leaves_no_shared_memory_of_its_mpi(tmp_path: Path) -> None:
    with start_job([BENCH, "--set", LONG, *GROUP.split()], 2, prepared(tmp_path), ENV) as job:
        ranks = started(job, tmp_path)
        mapped = left_behind.segments(ranks[0])
        assert mapped or not any(Path("/dev/shm").glob("mpich_shm_*"))
        os.kill(ranks[0], signal.SIGKILL)
        job.wait(END)
    assert wait_until(lambda: not any(Path(path).exists() for path in mapped), END)


def started(job: Job, folder: Path) -> dict[int, int]:
    """Process ids of the ranks, once they train."""
    training = wait_until(lambda: any(folder.glob("results/*/report.txt")) and len(job.ranks()) == 2, START)
    assert training, job.output()
    wait_until(lambda: False, 3.0)
    return job.ranks()


@needs_mpirun
@pytest.mark.parametrize("settings", slow([GROUP], [GROUP, MODELS, f"{MODELS} TIMELIMIT=15"]))
def test_one_signal_and_the_time_limit_end_a_job_with_a_stopped_rank_with_the_watchdog(
    tmp_path: Path, settings: str
) -> None:
    with start_job([BENCH, "--set", LONG, "WATCHDOG=3", *settings.split()], 2, prepared(tmp_path), ENV) as job:
        os.kill(started(job, tmp_path)[1], signal.SIGSTOP)
        if "TIMELIMIT" not in settings:
            job.process.send_signal(signal.SIGTERM)
        finished = job.wait(END)
    ended_by(finished, tmp_path, named(1, int(MODELS in settings), STOPPED, ".*"))


@pytest.mark.slow
@needs_mpirun
def test_a_second_signal_ends_a_job_with_a_stopped_rank_at_once(tmp_path: Path) -> None:
    with start_job([BENCH, "--set", LONG, *GROUP.split()], 2, prepared(tmp_path), ENV) as job:
        os.kill(started(job, tmp_path)[1], signal.SIGSTOP)
        job.process.send_signal(signal.SIGTERM)
        wait_until(lambda: False, 2.5)
        job.process.send_signal(signal.SIGTERM)
        finished = job.wait(END)
    ended_by(finished, tmp_path, r"the job ends at the second SIGTERM to rank 0 on .* in test 1 .*")


@pytest.mark.exhaustive
@needs_mpirun
@pytest.mark.parametrize("stop", [lambda job: job.ranks().values(), lambda job: [*job.ranks().values()][:1]])
def test_a_rank_that_goes_on_after_a_stop_changes_nothing(tmp_path: Path, stop: Callable[[Job], list[int]]) -> None:
    with start_job([BENCH, "--set", LONG, *GROUP.split(), "TIMELIMIT=14"], 2, prepared(tmp_path), ENV) as job:
        started(job, tmp_path)
        stopped = stop(job)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: False, 3.0)
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        finished = job.wait(START)
    assert finished.returncode == 3 and "by TIMELIMIT of 14 s." in finished.stdout


@pytest.mark.slow
@needs_mpirun
def test_a_lost_terminal_ends_the_job_and_the_folder_says_so(tmp_path: Path) -> None:
    """SIGHUP kills MPICH's launcher, which kills the ranks; others hand the signal on."""
    with start_job([BENCH, "--set", LONG, *GROUP.split()], 2, prepared(tmp_path), ENV) as job:
        started(job, tmp_path)
        job.process.send_signal(signal.SIGHUP)
        finished = job.wait(END)
        (made,) = (tmp_path / "results").iterdir()
        handed_on = "by SIGHUP on rank" in finished.stdout
        assert handed_on or wait_until((made / checksums.BROKEN_OFF).exists, END)
    assert finished.returncode != 0 and finished.leftovers == []
    if not handed_on:
        said = (made / checksums.BROKEN_OFF).read_text().splitlines()[1]
        assert said.startswith("what: the launcher has ended, and with it the ranks in test 1 (ensemble), ")


@pytest.mark.exhaustive
@pytest.mark.parametrize("ignored", [False, True])
def test_a_lost_terminal_ends_a_run_without_launcher_after_a_step_unless_nohup(tmp_path: Path, ignored: bool) -> None:
    arguments = [BENCH, "--set", LONG, "GROUPS=1", "DEGREE=1", "TIMELIMIT=15"]
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    with start_job(arguments, None, prepared(tmp_path), ENV) as job:
        signal.signal(signal.SIGHUP, before)
        assert wait_until(lambda: any(tmp_path.glob("results/*/report.txt")), START), job.output()
        job.process.send_signal(signal.SIGHUP)
        finished = job.wait(START)
    cause = "TIMELIMIT of 15 s" if ignored else "SIGHUP on rank 0"
    assert finished.returncode == 3 and f"BROKEN OFF after 0 of 1 tests by {cause}." in finished.stdout

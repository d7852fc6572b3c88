"""All ranks together: messages, agreement, waiting, and the end of a job that fails on one of them."""

import time
from pathlib import Path

import pytest
from launch import mpirun, run_job

from hpcai.errors import HpcaiError, InputError, LaunchError, Refused

needs_mpirun = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: MPI TEST NOT RUN")


@pytest.mark.parallel(3)
def test_messages_reach_every_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    from hpcai.comm import world as worlds

    world = worlds.join()
    comm, last = world.comm, world.size - 1
    assert (world.rank, world.size) == (comm.rank, comm.size)
    assert worlds.broadcast(comm, {"from": world.rank, "pi": 3.125, "no": None}) == {"from": 0, "pi": 3.125, "no": None}
    assert worlds.gather_all(comm, [world.rank, "é"]) == [[rank, "é"] for rank in range(world.size)]
    assert sum(worlds.gather_all(comm, int(world.node.rank == 0))) == len(set(comm.allgather(world.host)))
    everyone = list(range(world.size))
    for listed in (1, 2, world.size, world.size + 5):
        monkeypatch.setattr(worlds, "LISTED_RANKS", listed)
        expected = everyone[:listed] if world.rank < listed else []
        assert worlds.gather_listed(world, world.rank) == expected
    assert worlds.agreed(comm, lambda: {"made on": world.rank}) == {"made on": 0}
    assert comm.bcast(world.rank, last) == last


@pytest.mark.parallel(3)
def test_failures_on_rank_0_and_wrong_launches_are_refused_by_all(monkeypatch: pytest.MonkeyPatch) -> None:
    from hpcai.comm import world as worlds

    world = worlds.join()
    for error in (InputError("not like this"), HpcaiError("broken")):
        calls = []
        with pytest.raises(Refused) as refused:
            worlds.agreed(world.comm, lambda error=error, calls=calls: (calls.append(0), _raise(error)))
        assert (str(refused.value), refused.value.exit_code) == (str(error), error.exit_code)
        assert calls == ([0] if world.rank == 0 else [])
    if world.rank == world.size - 1:  # an error on one rank is refused by all
        monkeypatch.setenv("PMI_SIZE", str(world.size))
        monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", str(world.size + 1))
    with pytest.raises(Refused, match=f"OMPI_COMM_WORLD_SIZE={world.size + 1}") as refused:
        worlds.join()
    assert refused.value.exit_code == LaunchError.exit_code == 2


def _raise(error: HpcaiError) -> None:
    raise error


@pytest.mark.parallel(3)
def test_early_ranks_sleep_until_the_last_one_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hpcai.comm import world as worlds

    world = worlds.join()
    late = world.size - 1
    sign = Path(world.comm.bcast(str(tmp_path / "late"), late))
    sleeps: list[float] = []
    monkeypatch.setattr(worlds, "sleep", lambda seconds: (sleeps.append(seconds), time.sleep(seconds)))
    if world.rank == late:
        time.sleep(0.5)
        sign.touch()
    worlds.sleeping_barrier(world.comm)
    assert sign.exists()
    # all the time: about 250 times, unless there is one rank only
    assert len(sleeps) > 25 or world.rank == late
    assert all(0.001 <= seconds <= 0.01 for seconds in sleeps)
    world.comm.Barrier()


LEAVES = """
import sys
from hpcai.comm import world as worlds
worlds.abort_on_early_exit()
world = worlds.join()
if world.rank == world.size - 1:
    {action}
world.comm.Barrier()
worlds.finish()
"""
ENDS = {
    "sys.exit(0)": (3, ["left the program before the end"]),
    "worlds.abort_because(ValueError('what went wrong'))": (3, ["ValueError: what went wrong"]),
    "from hpcai.errors import InputError; worlds.abort_because(InputError('not so'))": (2, ["cannot go on: not so"]),
    "worlds.abort('gave up', 7)": (7, ["gave up"]),
}


@needs_mpirun
@pytest.mark.parametrize("action", ENDS)
def test_one_rank_that_leaves_ends_the_job_and_is_named(action: str) -> None:
    from socket import gethostname

    code, words = ENDS[action]
    finished = run_job(["-c", LEAVES.format(action=action)], 3, timeout=30)
    assert finished.returncode == code
    assert all(word in finished.stderr for word in [*words, f"hpcai: rank 2 on {gethostname()}"])
    assert not finished.leftovers


@needs_mpirun
def test_a_job_in_good_order_ends_with_zero() -> None:
    finished = run_job(["-c", LEAVES.format(action="pass")], 2, timeout=30)
    assert (finished.returncode, finished.stderr, finished.leftovers) == (0, "", [])


def test_errors_for_users_have_no_traceback() -> None:
    program = "from hpcai.comm import world; from hpcai.errors import DataError; world.abort_because({error})"
    known = run_job(["-c", program.format(error="DataError('damaged')")], None, env={"PMI_RANK": ""})
    unknown = run_job(["-c", program.format(error="OSError('damaged')")], None, env={"PMI_RANK": ""})
    assert known.returncode == unknown.returncode == 3
    assert "Traceback" not in known.stderr and "cannot go on: damaged" in known.stderr
    assert "raised OSError: damaged" in unknown.stderr

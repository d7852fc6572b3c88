"""What the watcher of a node knows of its ranks: activity, state of the process, and which of them hold up others."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from hpcai.comm.rank_watch import ROOT
from hpcai.watch import activity, page
from hpcai.watch.process import Process, started
from hpcai.watch.rank import Rank, Sight, as_message, from_message
from hpcai.watch.sentences import culprits, death, place, stuck, waiting

# a process as rank: it opens its page, states what it does, and tells the page's descriptor
RANK = """
import sys, time
from hpcai.watch import activity
page = activity.open_page()
with activity.test(3, "ensemble"):
    activity.enter_group(1)
    with activity.phase("warm_up"), activity.steps(7):
        print(page, flush=True)
        for line in sys.stdin:
            activity.beat()
            print(flush=True)
            if line == "train\\n":
                break
    with activity.phase("training"), activity.steps():
        print(page, flush=True)
        for line in sys.stdin:
            activity.beat()
            print(flush=True)
"""


@pytest.fixture
def program() -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-c", RANK], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def asked(program: "subprocess.Popen[str]", line: str) -> str:
    """The answer of the program."""
    assert program.stdin and program.stdout
    program.stdin.write(f"{line}\n")
    program.stdin.flush()
    return program.stdout.readline()


def rank_of(program: "subprocess.Popen[str]") -> Rank:
    assert program.stdout
    return Rank(5, "node3", Process(program.pid, started(program.pid)), int(program.stdout.readline()))


def test_a_rank_without_steps_is_overdue_only_where_they_are_watched(program: "subprocess.Popen[str]") -> None:
    rank = rank_of(program)
    rank.pass_time(100.0)
    assert not rank.overdue(2.0)  # a warm-up compiles
    asked(program, "train")
    assert program.stdout
    program.stdout.readline()
    rank.pass_time(0.5)
    asked(program, "step")
    for _ in range(5):
        rank.pass_time(0.5)
        assert not rank.overdue(2.5)
    rank.pass_time(0.5)
    assert rank.overdue(2.5) and not rank.overdue(3.0)
    asked(program, "step")
    rank.pass_time(0.5)
    assert not rank.overdue(1.0)
    for _ in range(30):
        rank.pass_time(0.5)
    assert not rank.overdue(2.0)  # the slowest step took 2.5 s
    for _ in range(25):
        rank.pass_time(0.5)
    assert rank.overdue(2.0)


def test_a_stopped_rank_is_overdue_in_any_phase_and_one_that_goes_on_is_not(program: "subprocess.Popen[str]") -> None:
    rank = rank_of(program)
    os.kill(program.pid, signal.SIGSTOP)
    while not rank.process.stopped:
        pass
    for _ in range(4):
        assert not rank.overdue(2.0)
        rank.pass_time(0.5)
    assert rank.overdue(2.0)
    os.kill(program.pid, signal.SIGCONT)
    asked(program, "")
    rank.pass_time(0.5)
    assert not rank.overdue(2.0)


def test_what_a_killed_rank_did_is_known_and_a_reused_number_is_not_hit(program: "subprocess.Popen[str]") -> None:
    rank = rank_of(program)
    Process(program.pid, started(program.pid) + 1).send(signal.SIGKILL)
    assert rank.process.alive
    rank.process.send(signal.SIGKILL)
    while rank.process.alive:
        pass
    said = "rank 5 on node3, group 1, was killed by signal 9 in test 3 (ensemble), warm up, epoch 7"
    assert death(rank.sight(), rank.process.exit_status) == said
    program.wait()
    assert rank.process.exit_status is None and place(rank.sight()) in said
    assert from_message(json.loads(json.dumps(as_message(rank.sight())))) == rank.sight()


def seen(rank: int, group: int, beats: int, loops: int = 4, phase: str = "training", **rest: bool) -> Sight:
    """A rank that is overdue, unless `rest` says otherwise."""
    what = page.Activity(beats, 9, True, 1, group, 2, loops, phase, "ensemble")
    return Sight(rank, f"node{rank}", what, silent=300.4, **{"overdue": True, **rest})


def test_the_ranks_that_others_wait_for_are_named() -> None:
    group = [seen(0, 0, 8), seen(1, 0, 7), seen(2, 1, 5), seen(3, 2, 5, overdue=False)]
    assert culprits(group) == [group[1], group[2]]
    assert culprits([*group, stopped := seen(4, 2, 9, stopped=True)]) == [stopped]
    assert culprits([seen(0, 0, 1, overdue=False)]) == []
    where = "in test 1 (ensemble), training, epoch 2"
    assert stuck(group[1:3]) == f"rank 1 on node1, group 0, made no step for 300 s {where}; likewise rank 2 on node2"
    assert stuck([seen(0, 0, 0)] * 20).endswith("; likewise " + "rank 0 on node0, " * 7 + "12 more")
    assert waiting(group, group[1:3]) == "waiting for it: rank 0"
    assert waiting(group[1:2], group[1:2]) == ""


def test_a_rank_that_waits_for_other_work_of_its_group_is_not_stuck() -> None:
    in_replay = seen(1, 0, page.LAST, 3, "replay", overdue=False)
    assert culprits([seen(0, 0, 0, 4), in_replay]) == []
    assert culprits([seen(0, 0, 0, 4), seen(1, 1, page.LAST, 3, "replay", overdue=False)]) != []
    finished = seen(1, 0, page.LAST, 4, "validation", overdue=False)
    assert culprits([late := seen(0, 0, 9, 4, "validation"), finished]) == [late]


def test_in_the_ensemble_all_groups_wait_for_each_other() -> None:
    first = seen(0, 0, 0, page.LOOPS_TOGETHER + 1, page.TOGETHER)
    assert culprits([first, seen(1, 1, page.LAST, 9, "validation", overdue=False)]) == []
    assert culprits([first, other := seen(1, 1, 0, page.LOOPS_TOGETHER, page.TOGETHER)]) == [other]


def test_phases_nest_and_only_the_main_threads_loops_of_steps_are_watched() -> None:
    def now() -> page.Activity:
        return page.unpacked(bytes(activity._memory[: page.SIGNALS_AT]))

    with activity.phase("search"), activity.phase("training"):
        assert (now().phase, now().watched) == ("training", False)
        with activity.steps():
            assert now().watched
            with activity.phase("replay"):
                assert (now().phase, now().watched) == ("replay", False)
            assert (now().phase, now().watched) == ("training", True)
    with pytest.raises(KeyError), activity.phase("validation"), activity.steps():
        raise KeyError
    assert (now().phase, now().watched) == ("", False)

"""Searches on real ranks: the tried networks, the records, and repeatability."""

import random
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from search_runs import repeatable, search_case, searched, verdicts

from hpcai.networks.lineage import lineage


def rank() -> int:
    from mpi4py import MPI

    return MPI.COMM_WORLD.rank


def size() -> int:
    from mpi4py import MPI

    return MPI.COMM_WORLD.size


def delayed(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Every rank waits for random times before training, and before receiving messages."""
    from hpcai.search.group_runner import GroupRunner

    dice, train, following = random.Random(f"{seed}/{rank()}"), GroupRunner._run_trial, GroupRunner._next

    def late(how: Any) -> Any:
        def call(*args: Any) -> Any:
            sleep(dice.random() * 0.5)
            return how(*args)

        return call

    monkeypatch.setattr(GroupRunner, "_run_trial", late(train))
    monkeypatch.setattr(GroupRunner, "_next", late(following))


@pytest.mark.parallel(2)
def test_a_search_is_recorded_and_passes() -> None:
    run = searched(GROUPS=size())
    if rank():
        return
    trials = [*run.trials]
    assert [trial.id for trial in trials] == list(range(1, 3 * size() + 1))
    assert sorted(run.history, key=lambda trial: trial.id) == trials
    assert [trial.planned_epochs for trial in trials[:: size()]] == [1, 2, 3]
    assert all(len(trial.curve) == trial.planned_epochs for trial in trials)
    assert all(trial.parent is not None for trial in trials if trial.round == 3)
    assert all(trial.morphisms for trial in trials[1:]) and not trials[0].morphisms
    assert run.weights == sorted(f"{trial.id}.safetensors" for trial in trials)
    entry = run.entry
    assert entry.verdict == "PASSED", verdicts(entry)
    assert run.raw.ended_by == "rounds" and run.raw.granted == len(trials)
    assert 0 < entry.scores.idle_share < 1


@pytest.mark.exhaustive
@pytest.mark.parallel(2)
def test_with_replay_of_rounds_the_search_depends_on_the_seed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"GROUPS": size(), "REPLAY": "rounds", "ROUNDS": 6, "EPOCHS": 1}
    first = searched(**settings)
    delayed(monkeypatch, 1)
    second = searched(**settings)
    if rank():
        return
    assert repeatable(first.trials) == repeatable(second.trials)
    assert verdicts(second.entry) == verdicts(first.entry)
    given = [trial.hyperparameters for trial in first.trials]
    assert all((each.batch, each.kernel) == (8, 3) for each in given[: 4 * size()])
    assert all(each.batch in (4, 8, 16) and each.kernel in (3, 5, 7) for each in given)


@pytest.mark.slow
@pytest.mark.parallel(2)
def test_a_recorded_search_is_repeated(tmp_path: Path) -> None:
    from mpi4py import MPI

    from hpcai.search import journal

    first = searched(GROUPS=size(), ROUNDS=3)
    path = Path(MPI.COMM_WORLD.bcast(str(tmp_path / "history.jsonl")))
    for trial in first.history:
        journal.append(path, trial)
    MPI.COMM_WORLD.Barrier()
    second = searched(GROUPS=size(), ROUNDS=0, DURATION=3600, REPLAY=f"file:{path}")
    if rank() == 0:
        assert repeatable(first.trials) == repeatable(second.trials)
        assert second.raw.ended_by == "trials"
        assert second.entry.verdict == "PASSED", verdicts(second.entry)


@pytest.mark.exhaustive
@pytest.mark.parallel(3)
def test_a_group_of_two_searches_with_an_idle_rank() -> None:
    settings = {"GROUPS": 1, "DEGREE": max(1, size() - 1), "MAPPING": "column"}
    run = searched(**settings)
    assert (run.measured is not None) == (rank() < settings["DEGREE"])
    if rank() == 0:
        assert run.entry.verdict == "PASSED", verdicts(run.entry)
        assert [trial.worker for trial in run.trials] == [0, 0, 0]


@pytest.mark.slow
@pytest.mark.parallel(1)
def test_one_rank_is_enough_and_trials_end_it() -> None:
    settings = {"GROUPS": size(), "ROUNDS": 0, "TRIALS": 2 * size() + 1}
    run = searched(**settings)
    if rank() == 0:
        assert len(run.trials) == settings["TRIALS"] and run.raw.ended_by == "trials"
        assert run.entry.verdict == "PASSED", verdicts(run.entry)


def parameters_of_the_first(**settings: Any) -> int:
    from hpcai import networks

    return sum(networks.for_data(search_case(**settings), (3, 8, 8), 4).parameters.values())


@pytest.mark.parallel(2)
def test_networks_keep_to_the_limits() -> None:
    from hpcai import networks

    most = parameters_of_the_first(GROUPS=size()) + 3000
    run = searched(GROUPS=size(), ROUNDS=4, EPOCHS=1, PARAMETERS=most)
    if rank() == 0:
        initial = networks.for_data(run.case, run.raw.dataset.shape, 4)
        found = [sum(graph.parameters.values()) for graph in lineage(initial, run.trials).values()]
        assert len({*found}) > 1 and max(found) <= most
        assert run.raw.proposals.rejected > 0


@pytest.mark.parallel(2)
@pytest.mark.parametrize("replay", ["off", "rounds"])
def test_a_search_ends_if_all_networks_were_tried(replay: str) -> None:
    most = parameters_of_the_first(GROUPS=size())
    run = searched(GROUPS=size(), ROUNDS=4, EPOCHS=1, PARAMETERS=most, REPLAY=replay)
    if rank() == 0:
        (trial,) = run.trials  # of the first group that asks, unless the order has to be repeatable
        assert trial.id == 1 or (replay == "off" and trial.id <= size())
        assert run.raw.ended_by == "exhausted"
        assert run.entry.verdict == "PASSED", verdicts(run.entry)


@pytest.mark.exhaustive
@pytest.mark.parallel(2)
def test_initial_weights_and_random_networks_are_an_alternative() -> None:
    run = searched(GROUPS=size(), INITIAL="fresh", STRATEGY="random")
    if rank() == 0:
        assert all(trial.deviation == 0 for trial in run.trials)
        assert run.entry.verdict == "PASSED", verdicts(run.entry)


@pytest.mark.slow
@pytest.mark.parallel(1)
def test_time_cuts_a_trial_whose_steps_are_credited() -> None:
    run = searched(GROUPS=size(), ROUNDS=0, DURATION=3, EPOCHS=400, SAMPLES=4096)
    if rank() == 0:
        assert run.raw.ended_by == "duration" and 2.5 < run.raw.seconds < 60
        assert {trial.end for trial in run.trials} == {"time"}
        assert run.entry.verdict == "PASSED", verdicts(run.entry)
    run = searched(GROUPS=size(), ROUNDS=0, DURATION=0.001)
    if rank() == 0:  # every group has a step, however short a search is
        assert [trial.steps >= 1 for trial in run.trials] == [True] * size()
        assert run.raw.ended_by == "duration"
        assert run.entry.verdict == "PASSED", verdicts(run.entry)


@pytest.mark.exhaustive
@pytest.mark.parallel(2)
def test_ranks_of_a_trial_that_time_cuts_are_equal() -> None:
    """Within an epoch each rank has its own statistics of batch norm."""
    run = searched(GROUPS=1, DEGREE=size(), ROUNDS=0, DURATION=3, EPOCHS=400, SAMPLES=4096)
    if rank() == 0:
        assert {trial.end for trial in run.trials} == {"time"} and run.raw.work.differing_ranks == 0
        assert run.entry.verdict == "PASSED", verdicts(run.entry)

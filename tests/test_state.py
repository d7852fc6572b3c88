"""The state of a training: written, read back elsewhere, and continued as without an interruption."""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from socket import gethostname
from typing import Any

import pytest
import torch
from state_files import read_state, write_state
from tiny import CPU, bits, training, unending

from hpcai import tensor_file, tensor_tree
from hpcai.clock import Phases
from hpcai.data.philox import Integers
from hpcai.train.loop import Training
from hpcai.train.state import CurvePoint, TrainingState

TESTS = Path(__file__).parent


class Interrupted(Exception):
    """The training was stopped."""


def stop_after(trained: Training, steps: int) -> None:
    """Train the given number of steps, in any epoch."""
    loader, progress = trained.loader, trained.state.progress

    def interrupted(batches: Iterable[Integers], crops: Any = None) -> Iterator[Any]:
        for batch in loader(batches, crops):
            if progress.steps == steps:
                raise Interrupted
            yield batch

    interrupted.wait_seconds = 0.0
    interrupted.order, interrupted.measured = loader.order, loader.measured
    interrupted.augmentation = loader.augmentation
    trained.loader = interrupted
    with pytest.raises(Interrupted):
        trained.run(Phases(CPU), unending())
    trained.loader = loader


def python(program: str, *arguments: object) -> str:
    """Run a program in a new process with as many threads as this one; returns its output."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    environment["PYTHONPATH"] = os.pathsep.join([str(TESTS), str(TESTS.parent), environment.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", program, *map(str, arguments)]
    finished = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


GO_ON = """
import sys
from pathlib import Path
from state_files import read_state, write_state
from tiny import CPU, alone, training, unending
from hpcai.clock import Phases
for path in map(Path, sys.argv[1:]):
    trained = training(alone())
    read_state(trained.state, path)
    trained.run(Phases(CPU), unending())
    write_state(trained.state, path)
"""


@pytest.mark.slow
def test_training_continues_in_a_new_process_bit_by_bit(tmp_path: Path) -> None:
    from tiny import alone

    whole = training(alone())
    assert whole.shard.steps == 3 and whole.recipe.epochs == 3
    whole.run(Phases(CPU), unending())
    paths = []
    for steps in (0, 1, 4, 6, 8):
        part = training(alone())
        stop_after(part, steps)
        torch.rand(steps)
        paths.append(tmp_path / f"{steps}.safetensors")
        write_state(part.state, paths[-1])
        assert bits(part.state.snapshot()) != bits(whole.state.snapshot())
    python(GO_ON, *paths)
    for path in paths:
        found = tensor_tree.join(*tensor_file.read(path))
        found["generators"] = whole.state.snapshot()["generators"]  # they depend on the number of draws above
        assert bits(found) == bits(whole.state.snapshot()), path.name


def test_a_written_state_is_read_back_completely(tmp_path: Path) -> None:
    from tiny import alone

    first, second = training(alone()), training(alone())
    stop_after(first, 5)
    first.state.progress.training_seconds = 12.5
    torch.manual_seed(3)
    write_state(first.state, tmp_path / "state")
    drawn = torch.rand(4)
    read_state(second.state, tmp_path / "state")
    assert torch.equal(torch.rand(4), drawn)
    read_state(second.state, tmp_path / "state")
    read_state(first.state, tmp_path / "state")
    assert bits(second.state.snapshot()) == bits(first.state.snapshot())
    assert second.state.progress == first.state.progress
    assert (second.state.progress.epoch, second.state.progress.step, second.state.progress.steps) == (1, 2, 5)
    assert second.state.progress.training_seconds == 12.5
    assert os.listdir(tmp_path) == ["state"]


def test_a_snapshot_does_not_change_with_the_training() -> None:
    from tiny import alone

    trained = training(alone())
    stop_after(trained, 4)
    snapshot = trained.state.snapshot()
    before = bits(snapshot)
    trained.run(Phases(CPU), unending())
    assert bits(snapshot) == before != bits(trained.state.snapshot())
    trained.state.restore(snapshot)
    assert bits(trained.state.snapshot()) == before
    trained.run(Phases(CPU), unending())
    trained.state.restore(snapshot)  # nor have steps after the first restoring changed the snapshot
    assert bits(trained.state.snapshot()) == before


def test_a_state_of_another_network_is_refused(tmp_path: Path) -> None:
    from dataclasses import replace

    from tiny import GRAPH, alone

    from hpcai.networks.layers import Dense

    wider = replace(GRAPH, layers=tuple(replace(x, op=Dense(6)) if x.name == "dense" else x for x in GRAPH.layers))
    write_state(training(alone(), graph=wider).state, tmp_path / "state")
    with pytest.raises(RuntimeError, match=r"dense\.weight"):
        read_state(training(alone()).state, tmp_path / "state")


def test_warm_up_does_not_change_the_state() -> None:
    from tiny import alone

    cold, warm = training(alone()), training(alone())
    torch.manual_seed(5)
    before = bits(warm.state.snapshot())
    assert warm.warm_up() == 4  # three full batches and the last, smaller one
    assert bits(warm.state.snapshot()) == before
    assert all(parameter.grad is None for parameter in warm.state.module.parameters())
    assert warm.state.module.training
    torch.manual_seed(5)
    for trained in (cold, warm):
        trained.run(Phases(CPU), unending())
    assert bits(warm.state.snapshot()) == bits(cold.state.snapshot())


@pytest.mark.parallel(2)
def test_replicas_of_a_group_stay_valid_when_the_state_is_restored() -> None:
    from mpi4py import MPI

    from hpcai.comm.grid import split
    from hpcai.comm.rendezvous import process_group
    from hpcai.train.data_parallel import differs_from_others

    group = split(MPI.COMM_WORLD, 1, MPI.COMM_WORLD.size, "row")
    assert group is not None
    with process_group(group, gethostname(), CPU):
        trained = training(group, samples=20 * group.degree)
        initial = bits(trained.state.snapshot())
        trained.warm_up()
        assert bits(trained.state.snapshot()) == initial
        stop_after(trained, 5)
        middle = trained.state.snapshot()
        trained.run(Phases(CPU), unending())
        end = bits(trained.state.snapshot())
        assert not differs_from_others(trained.state.module, group)
        trained.state.restore(middle)
        trained.run(Phases(CPU), unending())
        assert bits(trained.state.snapshot()) == end
        assert not differs_from_others(trained.state.module, group)


KILLED = """
import os, random, signal, sys, time
from pathlib import Path
import torch
from hpcai.train.state import CurvePoint, TrainingState
from state_files import read_state, write_state
path, in_place = Path(sys.argv[1]), sys.argv[2] == "in place"
torch.set_num_threads(1)  # a forked process has none of its parent's other threads
module = torch.nn.Linear(1500, 1500)
state = TrainingState(module, torch.optim.SGD(module.parameters(), 0.1), torch.device("cpu"))
write_state(state, path)
random.seed(1)
steps, unreadable = 0, 0
for attempt in range(100):
    if attempt >= 12 and (unreadable if in_place else steps):
        break
    child = os.fork()
    if child == 0:
        while True:
            state.progress.step += 1
            torch.save(state.snapshot(), path) if in_place else write_state(state, path)
    time.sleep(random.uniform(0.02, 0.08) * (1 + attempt / 6))  # long enough at last, however busy the machine
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    try:
        read_state(state, path)
    except Exception:
        unreadable += 1
        write_state(state, path)
    else:
        assert state.progress.step >= steps, "an older state came back"
        steps = state.progress.step
print(unreadable, steps)
"""


@pytest.mark.slow
def test_a_kill_while_writing_leaves_a_state_that_can_be_read(tmp_path: Path) -> None:
    unreadable, steps = map(int, python(KILLED, tmp_path / "state", "atomically").split())
    assert unreadable == 0 and steps > 0
    assert set(os.listdir(tmp_path)) <= {"state", ".state"}
    # the kills do happen while writing: they destroy a file that is written in place
    unreadable, _ = map(int, python(KILLED, tmp_path / "other", "in place").split())
    assert unreadable > 0


def test_a_state_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    module = torch.nn.Linear(2, 2)
    state = TrainingState(module, torch.optim.SGD(module.parameters(), 0.1), CPU)
    write_state(state, tmp_path / "state")
    before = (tmp_path / "state").read_bytes()
    state.progress.curve.append(CurvePoint(1, 0.0, lambda: 0, 0, 0))
    with pytest.raises(TypeError, match="function cannot be written"):
        write_state(state, tmp_path / "state")
    assert (tmp_path / "state").read_bytes() == before

"""Checkpoints: two are kept, a damaged one is left out, and a training that pauses is the one that does not."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import CPU, alone, training, unending

from hpcai import tensor_tree
from hpcai.checkpoint import paths
from hpcai.checkpoint.generations import Generations
from hpcai.clock import Phases
from hpcai.comm import shutdown
from hpcai.train.callback import TrainingCallback
from hpcai.train.loop import Training
from hpcai.update_rules import rule_of

SETTINGS = {
    "DECAY": 5e-4, "MOMENTUM": 0.9, "TRUST": 0.01, "BETA1": 0.9, "BETA2": 0.999, "EPSILON": 0.0,
}  # fmt: skip


@pytest.fixture(autouse=True)
def ask_after_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutdown, "INTERVAL", 0.0)


def written(folder: Path, *numbers: int) -> Generations:
    files = Generations(folder, "rank-0")
    for number in numbers:
        files.write(number, {"weight": torch.full((5,), float(number))}, {"steps": number})
    files.wait()
    return files


def test_the_last_two_are_kept(tmp_path: Path) -> None:
    found = written(tmp_path / "new", 3, 10, 200).newest()
    assert found is not None and found[0] == 200 and found[1][1] == {"steps": 200}
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "rank-0.10.safetensors", "rank-0.200.safetensors"
    ]  # fmt: skip


@pytest.mark.parametrize("damage", ["bit", "torn", "empty", "none"])
def test_a_damaged_one_is_left_out_and_told(tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]) -> None:
    files = written(tmp_path, 1, 2)
    path = tmp_path / "rank-0.2.safetensors"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= damage == "bit"
    path.write_bytes(data[: {"torn": len(data) // 2, "empty": 0}.get(damage, len(data))])
    found = files.newest()
    assert found is not None and found[0] == (2 if damage == "none" else 1)
    assert (f"checkpoint left out: {path}" in capsys.readouterr().err) == (damage != "none")


def test_one_that_cannot_be_written_is_told_once_and_the_training_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("not a folder")
    assert written(tmp_path / "file" / "folder", 1, 2, 3).newest() is None
    assert capsys.readouterr().err.count("hpcai: no checkpoint: ") == 1


def test_later_ones_are_removed_where_a_training_goes_on_from_an_earlier_one(tmp_path: Path) -> None:
    files = written(tmp_path, 1, 2)
    files.remove_after(1)
    found = files.newest()
    assert found is not None and found[0] == 1


def test_the_checkpoints_of_tests_that_have_ended_are_removed(tmp_path: Path) -> None:
    for test in (1, 2):
        written(paths.folder_of(tmp_path, test) / "group-0", 1)
    paths.remove(tmp_path, [1])
    assert [path.name for path in (tmp_path / paths.FOLDER).iterdir()] == ["test-2"]
    paths.remove(tmp_path, [2, 3])
    assert not [*tmp_path.iterdir()]


class Pauses(TrainingCallback):
    """Pauses after each step, or goes on in another training from what a file keeps."""

    pauses = True

    def __init__(self, trained: Training, folder: Path | None = None) -> None:
        self.trained, self.folder, self.count = trained, folder, 0

    def should_pause(self) -> bool:
        return True

    def on_pause(self) -> None:
        self.count += 1
        if self.folder:
            tensors, form = tensor_tree.separate(self.trained.state.snapshot(CPU), "state")
            files = Generations(self.folder, "rank-0")
            files.write(self.count, tensors, form)
            files.close()


def made(optimiser: str, precision: str) -> Training:
    rule = rule_of({**SETTINGS, "OPTIMISER": optimiser})
    return training(alone(), samples=61, epochs=2, rule=rule, precision=precision)


def state(trained: Training) -> dict[str, Any]:
    tensors, _ = tensor_tree.separate(trained.state.snapshot(), "")
    return tensors


def same(one: Training, other: Training) -> bool:
    first, second = state(one), state(other)
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("precision", ["fp32", "pure16", "halffp16"])
@pytest.mark.parametrize("optimiser", ["sgd", "lars", "adam"])
def test_a_training_that_pauses_is_the_one_that_does_not(optimiser: str, precision: str) -> None:
    paused, whole = made(optimiser, precision), made(optimiser, precision)
    pauses = Pauses(paused)
    paused.run(Phases(CPU), unending(), callback=pauses)
    whole.run(Phases(CPU), unending())
    assert same(paused, whole) and pauses.count >= 2 * paused.shard.steps - 2
    assert [point.correct for point in paused.state.progress.curve] == [
        point.correct for point in whole.state.progress.curve
    ]
    found = paused.checks.findings
    assert found.wrong_epochs == found.changed == found.stale == found.still == found.outside == found.others == 0
    assert found.deviation[0] < 1 and found.replayed >= 2
    assert paused.step_times.statistics().count == whole.step_times.statistics().count


@pytest.mark.parametrize("precision", ["fp32", "pure16", "halffp16"])
@pytest.mark.parametrize("optimiser", ["sgd", "lars", "adam"])
def test_a_training_goes_on_from_a_file_with_the_same_weights(optimiser: str, precision: str, tmp_path: Path) -> None:
    whole = made(optimiser, precision)
    whole.run(Phases(CPU), unending(), callback=Pauses(whole, tmp_path / "all"))
    resumed = made(optimiser, precision)
    resumed.warm_up()
    for number in (1, resumed.shard.steps + 1):
        kept = Generations(tmp_path / str(number), "rank-0")
        first = made(optimiser, precision)
        first.run(Phases(CPU), unending(), callback=Stops(first, number, tmp_path / str(number)))
        found = kept.newest()
        assert found is not None
        tensors, form = found[1]
        resumed.state.restore(tensor_tree.join(tensors, form))
        resumed.run(Phases(CPU), unending())
        assert same(resumed, whole)


class Stops(Pauses):
    """Stops after some steps."""

    def __init__(self, trained: Training, steps: int, folder: Path) -> None:
        super().__init__(trained, folder)
        self.steps = steps

    def should_pause(self) -> bool:
        return False

    def should_stop(self) -> bool:
        return self.trained.state.progress.steps + 1 >= self.steps

"""The networks of a search trained again one after the other, without a search around them: of search.py.

    mpirun -np P python benchmarks/plain.py HISTORY INPUT

Each rank trains what its group of one rank has trained, as long as it did; who is ready before the others goes on with
his last network, so that nobody is alone on the machine. A JSON object on stdout: of each trial, the seconds of one
training step.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hpcai.comm import world as worlds

WORLD = worlds.join()
THREADS = worlds.bind_to_processors(WORLD).threads

import torch  # noqa: E402, threads are counted before
from mpi4py import MPI  # noqa: E402

from hpcai.clock import Phases  # noqa: E402
from hpcai.comm.device_selection import select_device  # noqa: E402
from hpcai.comm.grid import split  # noqa: E402
from hpcai.comm.rendezvous import process_group  # noqa: E402
from hpcai.comm.shutdown import Shutdown  # noqa: E402
from hpcai.data import catalog  # noqa: E402
from hpcai.inputfile import parse  # noqa: E402
from hpcai.machine import device as devices  # noqa: E402
from hpcai.preflight.case_checks import network  # noqa: E402
from hpcai.preflight.library_loading import load  # noqa: E402
from hpcai.record.trial import Trial  # noqa: E402
from hpcai.search import journal  # noqa: E402
from hpcai.search.child_builder import FRESH, ChildBuilder  # noqa: E402
from hpcai.search.messages import RecordedTrial  # noqa: E402
from hpcai.search.recorded_trials import read_recorded_trials  # noqa: E402
from hpcai.search.trial_plan import TrialPlan  # noqa: E402
from hpcai.train.callback import TrainingCallback  # noqa: E402
from hpcai.train.state import Progress  # noqa: E402
from hpcai.training.assembly import trial_training  # noqa: E402


class Until(TrainingCallback):
    """Ends with an epoch."""

    def __init__(self, epochs: int) -> None:
        self._epochs = epochs

    def enough(self, progress: Progress) -> bool:
        return progress.epoch >= self._epochs


def plan_of(trial: Trial, recorded: RecordedTrial) -> TrialPlan:
    """The plan of a recorded trial, for as many epochs as were begun."""
    return TrialPlan(
        id=trial.id,
        worker=trial.worker,
        round=trial.round,
        given=trial.given,
        parent=trial.parent,
        ancestry=recorded.ancestry,
        morphisms=trial.morphisms,
        hyperparameters=trial.hyperparameters,
        epochs=len(trial.curve),
        patience=len(trial.curve),
    )


class Plain:
    """Trainings of one rank."""

    def __init__(self, history: Path, text: bytes) -> None:
        self._case = parse(text, ranks=WORLD.size).cases(WORLD.size)[0]
        recorded = read_recorded_trials(history, WORLD.size)
        trained = [trial for trial in journal.read(history) if trial.worker == WORLD.rank and trial.curve]
        self._plans = [plan_of(trial, recorded[trial.id]) for trial in trained]
        self._device = select_device(WORLD)
        devices.prepare(self._device, THREADS)
        load([self._case], self._device)
        self._dataset = catalog.open_for(self._case.data_settings)
        self._initial = network(self._case, self._dataset)

    def run(self) -> dict[int, float]:
        """Seconds a step, by trial."""
        group = split(WORLD.comm, WORLD.size, 1, "row")
        assert group is not None
        self._group = group
        with process_group(group, WORLD.host, self._device):
            found = {plan.id: self._seconds(plan) for plan in self._plans}
            others = WORLD.comm.Ibarrier()
            while not others.Test():
                self._seconds(self._plans[-1])
        return found

    def _seconds(self, plan: TrialPlan) -> float:
        builder = ChildBuilder(self._initial, Path(), 1, FRESH, torch.empty(0))
        child = builder.build(plan, False)
        training = trial_training(self._case, self._group, self._device, self._dataset, plan, child)
        training.warm_up()
        phases = Phases(self._device)
        training.run(phases, Shutdown(MPI.COMM_SELF, 0.0), callback=Until(plan.epochs))
        return float(phases.seconds["training"] / training.state.progress.steps)


def main() -> None:
    """Train, and bring the seconds of all ranks together."""
    found = Plain(Path(sys.argv[1]), Path(sys.argv[2]).read_bytes()).run()
    everyone = WORLD.comm.gather(found)
    if everyone:
        print(json.dumps({id_: seconds for own in everyone for id_, seconds in own.items()}))
    worlds.finish()


if __name__ == "__main__":
    main()

"""Suggests the next trials of a worker: networks by the strategy of the search, hyper-parameters by TPE."""

from collections.abc import Sequence
from pathlib import Path

from hpcai.data.philox import Purpose, seed_of
from hpcai.formulas.trial_schedule import number, warms_up
from hpcai.inputfile import Case
from hpcai.networks.digest import digest
from hpcai.networks.graph import Graph
from hpcai.networks.layers import Conv
from hpcai.networks.lineage import morphed
from hpcai.networks.morphism import KERNEL_SIZES, Insertion, Kernel, KernelSize
from hpcai.record.trial import Hyperparameters
from hpcai.search import tpe
from hpcai.search.candidates import BAYES, Candidate, Limits, propose
from hpcai.search.memory_limit import MemoryLimit
from hpcai.search.messages import FinishedTrial
from hpcai.search.proposal import Proposal
from hpcai.search.trial_cache import MOST_PARENTS
from hpcai.search.trial_history import TrialHistory
from hpcai.search.weights_file import weights_file

MOST_EVALUATED, MOST_OBSERVATIONS = 1000, 1000
INSERTED = tuple(kind.operation for kind in Insertion.__subclasses__())


class Suggester:
    """Suggests trials for one worker; a function of the trials it learnt, in order, and of the seed."""

    def __init__(self, case: Case, worker: int, initial: Graph, memory: MemoryLimit, folder: Path) -> None:
        """`folder` holds the weights of trials that can become parents."""
        self.rejected = 0
        self.taken: Sequence[str] = ()
        self._case, self._worker, self._memory, self._folder = case, worker, memory, folder
        self._history = TrialHistory(initial, case.seed)
        self._limits = Limits(case["DEPTH"], case["PARAMETERS"], lambda graph: memory.fits(graph, self._batches[0]))
        batch = case.batch
        self._batches = sorted({max(2, batch // 2), batch, 2 * batch})
        self._observations: list[tpe.Observation] = []
        self._proposed: list[Proposal] = []

    def learn(self, trials: Sequence[FinishedTrial]) -> None:
        """Take in trials that returned."""
        for trial in trials:
            self._history.add(trial.id, trial.chain, trial.value if trial.parent else None)
            chosen = {"batch": trial.hyperparameters.batch, "kernel": int(trial.hyperparameters.kernel)}
            self._observations.append(tpe.Observation(chosen, trial.accuracy))
        del self._observations[:-MOST_OBSERVATIONS]
        if len(self._history.evaluated) > MOST_EVALUATED:
            self._history.forget()

    def suggest(self, round_: int, attempt: int) -> list[Proposal]:
        """The best proposals first; networks of an earlier attempt are taken, and not proposed again."""
        self.taken = [*self.taken, *(proposal.network for proposal in self._proposed)] if attempt else []
        self.exclude(self.taken)
        case = self._case
        seed = seed_of(case.seed + attempt, Purpose.PROPOSALS, number(round_, self._worker, case.planned_groups))
        strategy, parents, first = case["STRATEGY"], self._parents(), self._worker == 0
        selection = propose(strategy, self._history, parents, self._limits, seed, first)
        self.rejected += selection.rejected
        chosen = self._hyperparameters(round_, seed)
        proposals = [self._proposal(candidate, chosen) for candidate in selection.candidates]
        self._proposed = [proposal for proposal in proposals if proposal.network not in self._history.tried]
        return self._proposed

    def exclude(self, networks: Sequence[str]) -> None:
        """Do not propose networks of these digests, which are taken."""
        self._history.tried.update(networks)

    def _parents(self) -> list[int]:
        evaluated = self._history.evaluated.values()
        best = sorted(evaluated, key=lambda network: (-network.value, network.id))[:MOST_PARENTS]
        return [network.id for network in best if weights_file(self._folder, network.id).exists()]

    def _hyperparameters(self, round_: int, seed: int) -> Hyperparameters:
        """Batch and kernel size; in the rounds of the warm-up the input's batch and the smallest kernel."""
        if warms_up(round_):
            return Hyperparameters(batch=self._case.batch, kernel=KERNEL_SIZES[0])
        observations = self._observations if self._case["STRATEGY"] == BAYES else []
        chosen = tpe.suggest({"batch": self._batches, "kernel": KERNEL_SIZES}, observations, seed)
        return Hyperparameters(batch=chosen["batch"], kernel=_kernel_size(chosen["kernel"]))

    def _proposal(self, candidate: Candidate, chosen: Hyperparameters) -> Proposal:
        """A candidate, its inserted convolutions enlarged to the chosen kernel size or to one within the limits."""
        kernel = self._within_limits(candidate.graph, chosen.kernel)
        enlarged = _enlarged(candidate.graph, kernel)
        graph = morphed(candidate.graph, enlarged)
        sizes = (chosen.batch, *reversed(self._batches))
        batch = next((size for size in sizes if self._memory.fits(graph, size)), self._batches[0])
        return Proposal(
            parent=candidate.parent,
            ancestry=candidate.ancestry,
            morphisms=(*candidate.morphisms, *enlarged),
            network=digest(graph),
            hyperparameters=Hyperparameters(batch=batch, kernel=kernel),
        )

    def _within_limits(self, graph: Graph, side: KernelSize) -> KernelSize:
        """The largest kernel size up to this one for which the network keeps to the limits; else the smallest one."""
        sizes = (size for size in reversed(KERNEL_SIZES) if size <= side)
        fitting = (size for size in sizes if self._limits.allow(morphed(graph, _enlarged(graph, size))))
        return next(fitting, KERNEL_SIZES[0])


def _kernel_size(side: int) -> KernelSize:
    return next(size for size in KERNEL_SIZES if size == side)


def _enlarged(graph: Graph, side: KernelSize) -> tuple[Kernel, ...]:
    """Morphisms for all inserted convolutions with a smaller kernel; 1 x 1 kernels stay."""
    return tuple(
        Kernel(layer.name, side)
        for layer in graph.layers
        if isinstance(layer.op, Conv)
        and layer.name.startswith(INSERTED)
        and layer.op.kernel[0] in KERNEL_SIZES
        and layer.op.kernel[0] < side
    )

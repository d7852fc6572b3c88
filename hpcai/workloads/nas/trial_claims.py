"""Claims about each trial of a search: descent, choices, epochs, work and validations, by input, seed and networks."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, inf

from hpcai.data.order import Shard
from hpcai.formulas import trial_schedule
from hpcai.formulas.sample_fingerprint import expected_fingerprint
from hpcai.inputfile import Case
from hpcai.inputfile.key import Setting
from hpcai.networks.digest import digest
from hpcai.networks.graph import Graph
from hpcai.networks.layers import Conv
from hpcai.networks.lineage import morphed
from hpcai.networks.morphism import KERNEL_SIZES, Kernel, Widen
from hpcai.record.trial import COMPLETED, FAILED, Trial
from hpcai.results.alterations import Alteration, changed, repeated, together
from hpcai.results.claim import Claim, Subject
from hpcai.search.neighbours import FACTORS, FARTHEST
from hpcai.workloads.nas.credits import graphs, initial
from hpcai.workloads.nas.record import SearchMeasured
from hpcai.workloads.nas.search_claims import measured, replayed

UNKNOWN = ("memory", "lost")  # ends that leave no account of the last steps
ANY = 2**31  # epochs: a PATIENCE without limit


@dataclass(frozen=True)
class Search:
    """A search, its networks and its trials by number."""

    case: Case
    raw: SearchMeasured
    initial: Graph
    graphs: Mapping[int, Graph]
    trials: Mapping[int, Trial]

    def shard(self, trial: Trial) -> Shard:
        """The samples that each rank of a trial's group trains on in an epoch."""
        return Shard(self.raw.dataset.training_samples, 0, self.case["DEGREE"], trial.hyperparameters.batch)


def search_of(subject: Subject) -> Search:
    """The search that a subject is about; its networks are made once."""
    case = subject.case
    return _search(case.index, case.workload, tuple(sorted(case.settings.items())), measured(subject))


@lru_cache(maxsize=4)
def _search(index: int, workload: str, settings: tuple[tuple[str, Setting], ...], raw: SearchMeasured) -> Search:
    case = Case(index, workload, dict(settings))
    trials = {trial.id: trial for trial in raw.trials}
    return Search(case, raw, initial(case, raw), graphs(case, raw), trials)


TrialHolds = Callable[[Search, Trial], bool]


def _of_trials(holds: TrialHolds) -> Callable[[Subject], bool]:
    """A claim about every trial."""

    def all_hold(subject: Subject) -> bool:
        search = search_of(subject)
        return all(holds(search, trial) for trial in search.raw.trials)

    return all_hold


def _operation(search: Search, trial: Trial) -> bool:
    return trial.operation == (trial.morphisms[0].operation if trial.morphisms else "initial")


def _unchanged(search: Search, trial: Trial) -> bool:
    inherited = bool(trial.morphisms) and search.case["INITIAL"] == "inherited"
    return trial.deviation == 0 or (trial.deviation > 0 and inherited)


def _parent(search: Search, trial: Trial) -> Trial | None:
    """The parent of a trial that was suggested; None of others."""
    known = trial.parent is not None and not replayed(search.case)
    return search.trials.get(trial.parent or 0) if known else None


def _parent_lives(search: Search, trial: Trial) -> bool:
    parent = _parent(search, trial)
    return parent is None or parent.end not in FAILED


def _parent_is_known(search: Search, trial: Trial) -> bool:
    """Whether REPLAY lets a trial use the result of its parent."""
    parent, case = _parent(search, trial), search.case
    return parent is None or case["REPLAY"] != "rounds" or parent.round < trial.round - case["LAG"]


def _batch(search: Search, trial: Trial) -> bool:
    usual = search.case["BATCH"]
    least = max(2, usual // 2)  # where memory is short, also in warm-up rounds
    sizes = {least, usual} if trial_schedule.warms_up(trial.round) else {least, usual, 2 * usual}
    return replayed(search.case) or trial.hyperparameters.batch in sizes


def _kernel(search: Search, trial: Trial) -> bool:
    sizes = KERNEL_SIZES[:1] if trial_schedule.warms_up(trial.round) else KERNEL_SIZES
    return replayed(search.case) or trial.hyperparameters.kernel in sizes


def _kernels(search: Search, trial: Trial) -> bool:
    """Whether all convolutions that morphisms added are as large as the trial's kernel size."""
    graph = search.graphs[trial.id]
    added = {layer.name for layer in graph.layers} - {layer.name for layer in search.initial.layers}
    sides = [side for name, side in _convolutions(graph) if name in added and side in KERNEL_SIZES]
    smallest = min(sides, default=trial.hyperparameters.kernel)
    return replayed(search.case) or smallest >= trial.hyperparameters.kernel


def _convolutions(graph: Graph) -> Iterator[tuple[str, int]]:
    return ((layer.name, layer.op.kernel[0]) for layer in graph.layers if isinstance(layer.op, Conv))


def _free(search: Search, trial: Trial) -> bool:
    """Whether the limits of networks do not hold for a trial."""
    return replayed(search.case) or not trial.morphisms


def _depth(search: Search, trial: Trial) -> bool:
    most, count = search.case["DEPTH"], len(list(_convolutions(search.graphs[trial.id])))
    return _free(search, trial) or most == 0 or count <= most


def _parameters(search: Search, trial: Trial) -> bool:
    most, count = search.case["PARAMETERS"], sum(search.graphs[trial.id].parameters.values())
    return _free(search, trial) or most == 0 or count <= most


def _morphisms(search: Search, trial: Trial) -> bool:
    """Whether a trial has no more morphisms than a proposal, but for kernels of added convolutions."""
    if _free(search, trial):
        return True
    graph = search.graphs[trial.id]
    added = sum(layer.name not in search.initial.shapes for layer in graph.layers if isinstance(layer.op, Conv))
    others = sum(not isinstance(each, Kernel) for each in trial.morphisms)
    return len(trial.morphisms) <= FARTHEST + added and others <= FARTHEST


def _widens(search: Search, trial: Trial) -> bool:
    """Whether no morphism widens a layer further than a proposal does."""
    if _free(search, trial):
        return True
    graph = search.graphs[trial.parent] if trial.parent is not None else search.initial
    for each in trial.morphisms:
        if isinstance(each, Widen):
            channels = graph.shapes[each.layer][0]
            if each.channels > max(channels + 1, int(max(FACTORS) * channels)):
                return False
        graph = morphed(graph, [each])
    return True


def _planned(search: Search, trial: Trial) -> bool:
    return trial.planned_epochs == trial_schedule.planned_epochs(trial.round, search.case["EPOCHS"])


def _epochs(search: Search, trial: Trial) -> bool:
    return [entry.epoch for entry in trial.curve] == [*range(1, len(trial.curve) + 1)]


def _length(search: Search, trial: Trial) -> bool:
    complete = trial.end != "planned" or len(trial.curve) == trial.planned_epochs
    return complete and len(trial.curve) <= trial.planned_epochs


def _cut(search: Search, trial: Trial) -> bool:
    """Whether only the last epoch of a trial was cut, and of no trial that was completed."""
    cut = [entry.correct is None for entry in trial.curve]
    return not any(cut[:-1]) and not (any(cut) and trial.end in COMPLETED)


def _patience(search: Search, trial: Trial) -> bool:
    """Whether a trial ended when PATIENCE says, and not before."""
    most, stale = trial_schedule.patience(trial.round, search.case["PATIENCE"] or ANY), _stale(trial)
    late = search.case["PATIENCE"] != 0 and max(stale[:-1], default=0) > most
    return not late and (trial.end != "patience" or stale[-1:] >= [most])


def _stale(trial: Trial) -> list[int]:
    """After each epoch, for how many the validation loss has not become smaller."""
    least, since, found = inf, 0, list[int]()
    for entry in trial.curve:
        loss = inf if entry.validation_loss is None else entry.validation_loss
        since = 0 if trial_schedule.improves(loss, least) else since + 1
        least = loss if since == 0 else least
        found.append(since)
    return found


def _losses(search: Search, trial: Trial) -> bool:
    """Whether every epoch that was validated has both losses; one that was cut has no second one."""
    if trial.end in FAILED:
        return True
    both = all(e.loss is not None and e.validation_loss is not None for e in trial.curve if e.correct is not None)
    return both and all(entry.validation_loss is None for entry in trial.curve if entry.correct is None)


def _exact(search: Search, trial: Trial) -> bool:
    """Whether the samples and steps of a trial follow from its shard."""
    return trial.end not in UNKNOWN and search.case["PRECISION"] != "fp16"


def _samples(search: Search, trial: Trial) -> bool:
    shard = search.shard(trial)
    whole, batch = shard.samples * shard.ranks, shard.batch * shard.ranks
    full = [entry.samples for entry in trial.curve if entry.correct is not None]
    begun = sum(entry.samples for entry in trial.curve if entry.correct is None)
    if not _exact(search, trial):
        return max([begun, *full]) <= whole and sum(full) + begun + trial.skipped <= whole * len(trial.curve)
    return full == [whole] * len(full) and begun == min(whole, ceil(begun / batch) * batch)


def _steps(search: Search, trial: Trial) -> bool:
    shard = search.shard(trial)
    full = sum(entry.correct is not None for entry in trial.curve)
    begun = sum(entry.samples for entry in trial.curve if entry.correct is None)
    expected = full * shard.steps + ceil(begun / (shard.batch * shard.ranks))
    return not _exact(search, trial) or trial.steps == expected


def _counted(search: Search, trial: Trial) -> bool:
    samples = search.raw.dataset.validation_samples
    expected = expected_fingerprint(samples)
    validated = [entry for entry in trial.curve if entry.correct is not None]
    return all((entry.counted, entry.fingerprint) == (samples, expected) for entry in validated)


def _correct(search: Search, trial: Trial) -> bool:
    samples = search.raw.dataset.validation_samples
    return all(entry.correct is None or entry.correct <= samples for entry in trial.curve)


def _different(subject: Subject) -> bool:
    search = search_of(subject)
    digests = [digest(graph) for graph in search.graphs.values()]
    return replayed(subject.case) or len({*digests}) == len(digests)


def trial_claims(where: str) -> tuple[Claim, ...]:
    """Claims about every trial, also of a search that was broken off."""

    def of(field: str, value: object, trial: int = 0) -> Alteration:
        return changed(f"{where}trials.{trial}.{field}", value)

    same = together(of("morphisms", [], 1), of("operation", "initial", 1), of("parent", None, 1))
    widest = {"operation": "widen", "layer": "stage1_block1_conv1", "channels": 33}
    return (
        Claim("trials: of different networks", _different, together(same, of("deviation", 0.0, 1))),
        Claim("trials: operation of the first morphism", _of_trials(_operation), of("operation", "skip", 1)),
        Claim("trials: deviation 0 of unchanged networks", _of_trials(_unchanged), of("deviation", 1e-12)),
        Claim("trials: parents have not failed", _of_trials(_parent_lives), of("end", "diverged")),
        Claim(
            "trials: parents of rounds that REPLAY lets them use",
            _of_trials(_parent_is_known),
            changed("settings.REPLAY", "rounds"),
            example="rounds",
        ),
        Claim("trials: batch sizes that are searched", _of_trials(_batch), of("hyperparameters.batch", 64)),
        Claim("trials: kernel sizes that are searched", _of_trials(_kernel), of("hyperparameters.kernel", 7)),
        Claim(
            "trials: added convolutions as large as the kernel size",
            _of_trials(_kernels),
            of("hyperparameters.kernel", 7, 8),
        ),
        Claim("trials: DEPTH", _of_trials(_depth), changed("settings.DEPTH", 1), example="shallow"),
        Claim("trials: PARAMETERS", _of_trials(_parameters), changed("settings.PARAMETERS", 1), example="small"),
        Claim(
            "trials: as many morphisms as a proposal",
            _of_trials(_morphisms),
            of("morphisms", [{**widest, "channels": 17 + step} for step in range(4)], 1),
        ),
        Claim("trials: layers widened as far as by a proposal", _of_trials(_widens), of("morphisms", [widest], 1)),
        Claim("trials: planned_epochs by EPOCHS and round", _of_trials(_planned), of("planned_epochs", 2)),
        Claim("trials: epochs in order", _of_trials(_epochs), of("curve.0.epoch", 2)),
        Claim("trials: all planned epochs and no more", _of_trials(_length), repeated(f"{where}trials.0.curve.0")),
        Claim("trials: cut in their last epoch only", _of_trials(_cut), of("curve.0.correct", None)),
        Claim("trials: ended by PATIENCE when it says", _of_trials(_patience), of("end", "patience")),
        Claim("trials: losses of every epoch", _of_trials(_losses), of("curve.0.loss", None)),
        Claim("trials: samples of the shard", _of_trials(_samples), of("curve.0.samples", 7)),
        Claim("trials: steps of the samples", _of_trials(_steps), of("steps", 77)),
        Claim("trials: every validation sample, each once", _of_trials(_counted), of("curve.0.counted", 7)),
        Claim("trials: correct <= validation_samples", _of_trials(_correct), of("curve.0.correct", 10**6)),
    )

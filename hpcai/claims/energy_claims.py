"""Claims about the energy of a test's timed region, for all workloads that train."""

from collections.abc import Callable
from math import isclose

from hpcai.inputfile.cases import METER
from hpcai.inputfile.key import Setting
from hpcai.record.energy import AUTOMATIC, COVERED, LEAST_SECONDS, Energy
from hpcai.results.alterations import Alteration, changed, together
from hpcai.results.claim import Claim, Subject

MILLISECOND = 1e-3
PER_WORK = ("valid_flops_per_watt", "joules_per_sample", "joules_per_training")


def _of(holds: Callable[[Subject, Energy], bool]) -> Callable[[Subject], bool]:
    """A claim about recorded energy; it holds where none is."""

    def claim(subject: Subject) -> bool:
        energy: Energy | None = subject.entry.raw.energy
        return energy is None or holds(subject, energy)

    return claim


def _measured(**changes: object) -> Alteration:
    """An hour at 100 W by a meter on one node, except for `changes`."""
    energy = {"source": "meter", "covers": "node", "nodes": 1, "begun": "2026-01-01T00:00:00.000+00:00"}
    return changed("raw.energy", {**energy, "seconds": 3600.0, "joules": 360000.0, "reason": None, **changes})


def _allowed(setting: Setting) -> tuple[str | None, ...]:
    """The sources that a value of ENERGY allows."""
    if isinstance(setting, float):
        return ("fixed",)
    by_word: dict[Setting, tuple[str | None, ...]] = {"none": (None,), "auto": (*AUTOMATIC, None)}
    return ("meter",) if str(setting).startswith(METER) else by_word[setting]


def _source(subject: Subject, energy: Energy) -> bool:
    return energy.source in _allowed(subject.entry.settings["ENERGY"])


def _covered(subject: Subject, energy: Energy) -> bool:
    return energy.covers in (COVERED[energy.source] if energy.source else (None,))


def _known(subject: Subject, energy: Energy) -> bool:
    return (energy.joules is None) == (energy.reason is not None) and (energy.source is not None or bool(energy.reason))


def _nodes(subject: Subject, energy: Energy) -> bool:
    return energy.nodes <= min(subject.environment.nodes, subject.case.groups * subject.case.degree)


def _gpus(subject: Subject, energy: Energy) -> bool:
    return energy.source != "nvml" or subject.environment.accelerators > 0


def _fixed(subject: Subject, energy: Energy) -> bool:
    watts: Setting = subject.entry.settings["ENERGY"]
    if not isinstance(watts, float) or energy.joules is None:
        return True
    return isclose(energy.joules, watts * energy.nodes * energy.seconds, rel_tol=1e-9)


def _spans(subject: Subject, energy: Energy) -> bool:
    timed: float = subject.entry.seconds
    return timed <= energy.seconds + MILLISECOND


def _watts(subject: Subject) -> bool:
    energy, watts = subject.entry.raw.energy, subject.entry.scores.mean_watts
    if energy is None or energy.joules is None or watts is None:
        return watts is None and (energy is None or energy.joules is None or energy.seconds == 0)
    return isclose(watts * energy.seconds, energy.joules, rel_tol=1e-12)


def _scored(subject: Subject) -> bool:
    """Scores per work only of whole nodes, and of a region that is long enough."""
    energy, scores = subject.entry.raw.energy, subject.entry.scores
    whole = energy is not None and energy.covers == "node" and energy.seconds >= LEAST_SECONDS
    return whole or all(getattr(scores, name, None) is None for name in PER_WORK)


def _throughput(subject: Subject) -> bool:
    energy, rate = subject.entry.raw.energy, subject.entry.scores.models_per_minute
    if energy is None or not energy.seconds or rate is None:
        return rate is None
    return isclose(rate * energy.seconds, 60 * subject.entry.raw.models.reached, rel_tol=1e-12)


ENERGY = (
    Claim("energy: of a source that ENERGY allows", _of(_source), _measured(source="meter")),
    Claim("energy: the part of a node that its source counts", _of(_covered), _measured(covers="packages")),
    Claim("energy: known, or the reason why it is not", _of(_known), _measured(joules=None)),
    Claim("energy: nodes of the grid", _of(_nodes), _measured(nodes=99)),
    Claim("energy: by NVML only where there are GPUs", _of(_gpus), _measured(source="nvml", covers="GPUs")),
    Claim(
        "energy: fixed watts x nodes x seconds = joules",
        _of(_fixed),
        together(_measured(source="fixed"), changed("settings.ENERGY", 99.0)),
    ),
    Claim("energy: its region spans the training", _of(_spans), _measured(seconds=0.0)),
    Claim("energy: mean watts x seconds = joules", _watts, changed("scores.mean_watts", 9.0)),
    Claim("energy: scores of whole nodes and at least 2 s only", _scored, changed("scores.joules_per_sample", 9.0)),
)
# Of models that are trained together.
THROUGHPUT = (
    Claim(
        "models per minute x seconds of the region = 60 x models that reached the target",
        _throughput,
        changed("scores.models_per_minute", -1.0),
    ),
)

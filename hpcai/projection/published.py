"""The published case of a machine file, projected without any measurement, beside its published efficiencies."""

from dataclasses import dataclass

from hpcai import networks, opcount
from hpcai.errors import InputError
from hpcai.projection.fit import Fit, computing
from hpcai.projection.gradients import profile
from hpcai.projection.machine import Machine
from hpcai.projection.model import Phases, Projected, Training


@dataclass(frozen=True)
class Compared:
    """A projected efficiency and the published one; None where none is published."""

    projected: Projected
    efficiency: float
    published: float | None


def case_fit(machine: Machine, algorithm: str | None = None) -> Fit:
    """The model of the machine's own case; InputError if the file has none."""
    case, rank = machine.case, machine.rank
    if case is None or rank is None:
        raise InputError(f"machine {machine.name}: no [case] and [rank]; allowed without results: machines with both")
    graph = networks.build(case.network, (case.image, case.image), 3, case.classes, case.variant)
    training = Training(
        profile=profile(graph),
        operations=opcount.count(graph, "model").total,
        batch=case.batch,
        samples=case.samples,
        epochs=case.epochs,
        algorithm=algorithm or case.algorithm,
        classes=case.classes,
    )
    return Fit(training, computing(rank, training), machine.links, Phases(), machine.buckets)


def compared(machine: Machine, ranks: tuple[int, ...] = (), algorithm: str | None = None) -> list[Compared]:
    """The published numbers of ranks, or those asked for; efficiencies are relative to the published reference."""
    fit, published = case_fit(machine, algorithm), machine.published
    known = dict(zip(published.ranks, published.efficiency, strict=True)) if published else {}
    counts = ranks or tuple(known)
    if not counts:
        raise InputError(f"machine {machine.name} has no published efficiencies; allowed: --ranks N,...")
    first = fit.project(1, published.reference if published else machine.node.ranks)
    found = (fit.project(1, count) for count in counts)
    return [Compared(each, each.rate / first.rate, known.get(each.ranks)) for each in found]

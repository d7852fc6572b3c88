"""Printed lines of projections; each begins with PROJECTED."""

from collections.abc import Iterable, Iterator, Sequence

from hpcai.formulas.all_reduce_cost import Link
from hpcai.projection.errors import Errors, reference
from hpcai.projection.fit import Fit
from hpcai.projection.machine import Machine
from hpcai.projection.measured import Measured
from hpcai.projection.model import Projected, Refused
from hpcai.projection.published import Compared

MARK = "PROJECTED"
NONE = "n/a"
HEAD = (
    f"{'ranks':>7} {'P':>6} {'Q':>6} {'GFLOP/s':>12} {'error':>8} {'Valid GFLOP/s':>14} {'error':>8} "
    f"{'efficiency':>10} {'error':>9} {'time, s':>11} {'error':>8} {'step, ms':>10} {'exposed, ms':>11} "
    f"{'validation, s':>13} {'ensemble, s':>11} {'staging, s':>10}"
)
PUBLISHED_HEAD = (
    f"{'ranks':>7} {'GFLOP/s':>12} {'error':>8} {'efficiency':>10} {'error':>8} {'published':>9} {'difference':>12}"
)


def marked(lines: Iterable[str]) -> str:
    """The lines, each with the mark."""
    return "\n".join(f"{MARK} {line}".rstrip() for line in lines)


def block(
    measured: Measured, used: Fit, errors: Errors, found: Sequence[Projected | Refused], machine: Machine | None = None
) -> Iterator[str]:
    """Lines of one family of trainings; `machine`: to which they are projected, if not the one of the results.

    Efficiencies are relative to the fewest ranks that were measured: as measured, or as projected to the machine.
    """
    first = reference(measured)
    runs = len({each.run for each in measured.observations})
    title = machine.title if machine else f"as measured, {used.links.ranks_per_node} ranks a node"
    yield f"{first.name}; machine: {title}; {used.training.algorithm} all-reduce; not a result, never ranked"
    yield f"fitted to {len(measured.observations)} trainings of {runs} results on {_ranks(measured)} ranks"
    yield from model_lines(used)
    yield _errors(errors)
    yield HEAD
    rate = used.project(first.p, first.q).rate if machine else first.flops / first.ranks
    yield from (f"{each}" if isinstance(each, Refused) else _row(each, errors, rate) for each in found)
    of = "projected" if machine else "measured"
    yield f"efficiency relative to {first.ranks} ranks, {of}; Valid FLOPS at the quality measured on the most ranks"


def model_lines(used: Fit) -> Iterator[str]:
    """What the fit found: compute of a step, links."""
    compute, links = used.compute, used.links
    yield (
        f"step of a rank: {1e3 * compute.mean:.2f} ms + {1e9 * compute.per_byte:.3f} ms per MB sent, from step to step "
        f"{1e3 * compute.spread:.2f} ms, from rank to rank {100 * compute.ranks_spread:.1f} %, "
        f"input {1e3 * compute.data:.2f} ms"
    )
    yield (
        f"message within a node ({links.ranks_per_node} ranks): {_link(links.within)}; between nodes: "
        f"{_link(links.between)}"
    )


def _link(link: Link | None) -> str:
    if link is None:
        return "not measured"
    rate = f"{1e-9 / link.per_byte:.3f} GB/s" if link.per_byte else "any bandwidth"
    return f"{1e6 * link.latency:.1f} us, {rate}"


def _ranks(measured: Measured) -> str:
    return ", ".join(map(str, sorted({each.ranks for each in measured.observations})))


def _errors(errors: Errors) -> str:
    each = ", ".join(f"{found.p}x{found.q} {100 * found.flops:+.1f} %" for found in errors.found)
    return f"leave-one-out error of FLOPS, {len(errors.found)} of {errors.tried} could be left out: {each or NONE}"


def _row(found: Projected, errors: Errors, rate: float) -> str:
    valid = NONE if found.valid_flops is None else f"{found.valid_flops / 1e9:.4g}"
    return (
        f"{found.ranks:>7} {found.p:>6} {found.q:>6} {found.flops / 1e9:>12.5g} {_share(errors, 'flops'):>8} "
        f"{valid:>14} {_share(errors, 'valid_flops'):>8} {found.rate / rate:>10.3f} {_points(errors):>9} "
        f"{found.seconds:>11.4g} {_share(errors, 'seconds'):>8} {1e3 * found.compute:>10.4g} "
        f"{1e3 * found.exposed:>11.4g} {found.validation:>13.4g} {found.ensemble:>11.4g} {found.staging:>10.4g}"
    )


def _share(errors: Errors, name: str) -> str:
    worst = errors.worst(name)
    return NONE if worst is None else f"{100 * worst:.1f} %"


def _points(errors: Errors) -> str:
    worst = errors.worst("efficiency")
    return NONE if worst is None else f"{100 * worst:.1f} pts"


def published_block(found: Sequence[Compared], used: Fit, machine: str) -> Iterator[str]:
    """Lines of the case of a machine file."""
    yield f"the case of machine {machine}; {used.training.algorithm} all-reduce; not a result, never ranked"
    yield from model_lines(used)
    yield PUBLISHED_HEAD
    for each in found:
        known = each.published
        beside = NONE if known is None else f"{known:.2f}"
        difference = NONE if known is None else f"{100 * (each.efficiency - known):+.1f} pts"
        yield (
            f"{each.projected.ranks:>7} {each.projected.flops / 1e9:>12.5g} {NONE:>8} {each.efficiency:>10.3f} "
            f"{NONE:>8} {beside:>9} {difference:>12}"
        )
    yield "error n/a: no measurement to leave out"

"""Trainings and tables that follow the model exactly, on hosts of one rank each."""

from hpcai.formulas.all_reduce_cost import Link, Links, flat
from hpcai.projection.gradients import Profile
from hpcai.projection.links import Timing
from hpcai.projection.machine import TORCH
from hpcai.projection.measured import Measured, Observation
from hpcai.projection.model import Compute, Phases, Training, project

TRUE = Link(2e-4, 8e-8)
TRAINING = Training(Profile(0.66, ((0.3, 600_000), (1.0, 200_000))), 10**8, 32, 4096, 3, valid=0.5)
COMPUTE = Compute(mean=0.5, per_byte=1e-8)
SIZES = (16_384, 131_072, 1_048_576, 4_194_304)


def table(run: int, ranks: int, times: float = 1.0) -> list[tuple[int, Timing]]:
    """The all-reduces of a job on so many hosts; `times`: as long as they are in truth."""
    links = Links(1, None, TRUE)
    seconds = {size: times * flat(size / 4, 4, ranks, links) for size in SIZES}
    return [(run, Timing("gloo", True, ranks, 1, size, taken)) for size, taken in seconds.items() if ranks > 1]


def observation(run: int, ranks: int) -> Observation:
    """A training on so many hosts."""
    found = project(TRAINING, COMPUTE, Links(1, None, TRUE), TORCH, 1, ranks)
    sent = 4 * 800_000 * 2 * (ranks - 1) / ranks
    return Observation(
        run=run,
        name="made up",
        family=(),
        training=TRAINING,
        by="gloo" if ranks > 1 else "",
        p=1,
        q=ranks,
        nodes=ranks,
        ranks_per_node=1,
        seconds=found.seconds,
        flops=found.flops,
        busy=COMPUTE.mean + COMPUTE.per_byte * sent,
        sent=sent,
        spread=0.0,
        ranks_spread=None,
        data=0.0,
        phases=Phases(validation=1e-3, ensemble=1e-3),
    )


def measured(wrong: int = 0, times: float = 3.0) -> Measured:
    """Jobs of 1, 2, 3 and 4 hosts; the table of that with `wrong` hosts has other times."""
    counts = (1, 2, 3, 4)
    tables = [each for run, ranks in enumerate(counts) for each in table(run, ranks, times if ranks == wrong else 1.0)]
    return Measured(tuple(observation(run, ranks) for run, ranks in enumerate(counts)), tuple(tables))

"""Results with weather between ensembles and a search, put together from the stored ones."""

from typing import Any

from msgspec.structs import replace
from small_run import GOLDEN, INPUT, WEATHER

from hpcai.comm.grid_coordinates import grids_of, groups_of, idle_ranks, listed_grids
from hpcai.inputfile import Problem, parse
from hpcai.record.loading import load
from hpcai.record.plain import plain
from hpcai.record.problem import input_of
from hpcai.record.result import Result
from hpcai.results.assembly import enter
from hpcai.results.measured import Measured
from hpcai.results.summary import sealed

Json = dict[str, Any]


def section() -> str:
    """The section of the stored weather."""
    return "[weather]" + (WEATHER / "input.dat").read_text("utf-8").partition("[weather]")[2]


def stored_measurements(*, ensembles: bool = True) -> list[Measured]:
    """The measurements of the stored tests: ensembles on two grids, and weather on two."""
    folders = [GOLDEN, WEATHER] if ensembles else [WEATHER]
    tests = [test for folder in folders for test in load(folder / "result.json").tests]
    first, *others = (Measured(test.raw, test.memory, test.telemetry) for test in tests)
    return [first, *map(not_the_first, others)]


def not_the_first(measured: Measured) -> Measured:
    """The same for a test that is not the first of its run."""
    phases = replace(measured.raw.phases, start_up=None)
    return Measured(replace(measured.raw, phases=phases), measured.memory, measured.telemetry)


def result_of(problem: Problem, measurements: list[Measured]) -> Result:
    """The result of a problem on two ranks of the stored machine."""
    stored, cases = load(GOLDEN / "result.json"), problem.cases(2)
    grids = grids_of(cases)
    environment = replace(stored.environment, grids=listed_grids(grids), idle=idle_ranks(grids, 2))
    ranks = tuple(replace(rank, groups=tuple(groups_of(rank.rank, grids))) for rank in stored.ranks)
    made = replace(stored, input=input_of(problem), environment=environment, ranks=ranks, tests=())
    for case, measured in zip(cases, measurements, strict=False):
        made, _ = enter(made, case, measured)
    return sealed(made, len(cases))


def mixed_result(*, ensembles: bool = True, search: bool = True) -> Result:
    """Two ensembles, two tests of weather and a search; or without some of them."""
    text = INPUT.read_text("utf-8") if ensembles else INPUT.read_text("utf-8").partition("[ensemble]")[0]
    measurements, more = stored_measurements(ensembles=ensembles), ""
    if search:
        import synthetic_search

        more = synthetic_search.SEARCH
        problem = parse("\n".join([text, section(), more]), name="input.dat")
        memory = load(GOLDEN / "result.json").tests[0].memory
        measurements += [Measured(synthetic_search.raw_of(problem.cases(2)[-1]), memory)]
    return result_of(parse("\n".join([text, section(), more]), name="input.dat"), measurements)


def mixed(*, ensembles: bool = True, search: bool = True) -> Json:
    """The same as JSON, free to be altered."""
    return plain(mixed_result(ensembles=ensembles, search=search))

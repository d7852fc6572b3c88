"""Results with weather between ensembles and a search, put together from the stored ones."""

from typing import Any

from small_run import INPUT, WEATHER, golden, golden_weather
from synthetic_search import SEARCH, raw_of, result_of

from hpcai.inputfile import parse

Json = dict[str, Any]


def section() -> str:
    """The section of the stored weather."""
    return "[weather]" + (WEATHER / "input.dat").read_text("utf-8").partition("[weather]")[2]


def mixed(*, ensembles: bool = True, search: bool = True) -> Json:
    """Two ensembles, two tests of weather and a search; or without some of them. To be altered at will."""
    text = INPUT.read_text("utf-8") if ensembles else INPUT.read_text("utf-8").partition("[ensemble]")[0]
    problem = parse("\n".join([text, section(), SEARCH if search else ""]), name="input.dat")
    raws = [test["raw"] for test in (golden()["tests"] if ensembles else []) + golden_weather()["tests"]]
    raws += [raw_of(case) for case in problem.cases(2) if case.workload == "nas"]
    for later in raws[1:]:
        later["phases"].pop("start-up", None)
    return result_of(problem, raws)

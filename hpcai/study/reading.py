"""Tests of results for a figure: each result is verified, and all must belong together."""

from collections.abc import Sequence
from pathlib import Path

from hpcai.errors import InputError
from hpcai.record.entry import Row
from hpcai.record.loading import load
from hpcai.record.result import Result
from hpcai.results.comparable import facts_of
from hpcai.study.figure import Figure
from hpcai.verification import verify

MACHINE = ("processor", "device", "python", "packages")


def tests_of(paths: Sequence[Path], figure: Figure) -> list[Row]:
    """The PASSED tests of verified results that a figure takes; InputError if there is none or they do not agree."""
    results = [(path, _verified(path)) for path in paths]
    chosen = [(path, test) for path, result in results for test in result.tests if _counts(test, figure)]
    if not chosen:
        raise InputError(f"no test of {', '.join(map(str, paths))} belongs to this figure; allowed: PASSED tests of it")
    if figure.varied is not None:
        _agree([result for _, result in results], [test for _, test in chosen], figure.varied)
    return [test for _, test in chosen]


def _counts(test: Row, figure: Figure) -> bool:
    return test.verdict == "PASSED" and figure.takes(test)


def _verified(path: Path) -> Result:
    file = path / "result.json" if path.is_dir() else path
    found = verify.differences(file)
    if found:
        raise InputError(f"{path} is not verified: {found[0]}; allowed: results that bench.py --verify confirms")
    return load(file)


def _agree(results: Sequence[Result], tests: Sequence[Row], varied: Sequence[str]) -> None:
    """InputError that names the first fact in which tests or machines differ."""
    first = dict(facts_of(tests[0], varied))
    for test in tests[1:]:
        for name, value in facts_of(test, varied):
            if first.get(name) != value:
                raise _different(name, first.get(name), value, varied)
    for name in MACHINE:
        values = [getattr(result.environment, name) for result in results]
        for value in values[1:]:
            if value != values[0]:
                raise _different(f"{name} of the machine", values[0], value, varied)


def _different(name: str, one: object, other: object, varied: Sequence[str]) -> InputError:
    allowed = ", ".join(varied)
    return InputError(f"tests do not belong together: {name} is {one} and {other}; allowed to differ: {allowed}")

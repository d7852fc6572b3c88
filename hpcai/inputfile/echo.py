"""Echo of a Problem in the grammar of input.dat, with every KEY: parsed again, it gives the same settings."""

from collections.abc import Mapping, Sequence

from hpcai.inputfile.cases import Problem
from hpcai.inputfile.key import Value
from hpcai.inputfile.keys import keys_by_name
from hpcai.inputfile.values import words_for


def echo(problem: Problem) -> list[str]:
    """The lines below the headers, at most 200 columns each, `(default)` behind what the input left out."""
    run = {key: (value,) for key, value in problem.run.items()}
    lines = _settings(run, problem.run_defaulted)
    for section in problem.sections:
        lines += ["", f"[{section.name}]", *_settings(section.values, section.defaulted)]
    return lines


def setting(values: Sequence[Value], key: str, remark: str) -> str:
    """One aligned line: value(s), KEY, free text."""
    return f"{words_for(keys_by_name()[key], values):<14} {key:<12} {remark}".rstrip()


def _settings(values: Mapping[str, Sequence[Value]], defaulted: frozenset[str]) -> list[str]:
    return [setting(values[key], key, "(default)" if key in defaulted else "") for key in values]

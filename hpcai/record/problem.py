"""Records of the input: text, digest, and every KEY with its values."""

from typing import Annotated

from msgspec import Meta

from hpcai.inputfile import Problem, parse
from hpcai.record.record import Name, Record, Scalar, Sha256, about


class RunValue(Record, kw_only=True):
    """The value of a KEY of the run."""

    value: Annotated[Scalar, about("value")]
    default: Annotated[bool, about("whether the input left it out")]


class KeyValues(Record, kw_only=True):
    """The values of a KEY of a section."""

    values: Annotated[tuple[Scalar, ...], about("values; each is a test unless the KEY is a list")]
    default: Annotated[bool, about("whether the input left it out")]


class SectionValues(Record, kw_only=True):
    """A section of the input."""

    name: Annotated[Name, about("name of the section")]
    keys: Annotated[dict[str, KeyValues], about("every KEY that the section has")]


class Input(Record, kw_only=True):
    """The input of a run."""

    name: Annotated[str, about("name of the input file")]
    digest: Annotated[Sha256, about("SHA-256 of the text")]
    headers: Annotated[tuple[str, ...], Meta(min_length=2, max_length=2), about("the two header lines")]
    text: Annotated[str, about("text of the input file")]
    overrides: Annotated[tuple[str, ...], about("options --set of the command line")]
    run: Annotated[dict[str, RunValue], about("every KEY of the run")]
    sections: Annotated[tuple[SectionValues, ...], about("the sections in their order")]


def input_of(problem: Problem) -> Input:
    """The record of a problem."""
    return Input(
        name=problem.name,
        digest=problem.digest,
        headers=problem.headers,
        text=problem.text,
        overrides=problem.overrides,
        run={key: RunValue(value=value, default=key in problem.run_defaulted) for key, value in problem.run.items()},
        sections=tuple(
            SectionValues(
                name=section.name,
                keys={
                    key: KeyValues(values=values, default=key in section.defaulted)
                    for key, values in section.values.items()
                },
            )
            for section in problem.sections
        ),
    )


def problem_of(record: Input) -> Problem:
    """The problem of a record, parsed from its text and overrides; InputError if it is illegal."""
    return parse(record.text, list(record.overrides), name=record.name)

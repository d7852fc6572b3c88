"""Parser of input.dat and command-line overrides: a Problem, or all mistakes at once."""

import hashlib
from collections.abc import Callable, Sequence

from hpcai.inputfile.blocks import Block, read_blocks
from hpcai.inputfile.cases import Problem, Section
from hpcai.inputfile.checks import check
from hpcai.inputfile.keys import keys_of
from hpcai.inputfile.lines import decoded, lines_of
from hpcai.inputfile.mistakes import Mistakes
from hpcai.inputfile.overrides import override


def parse(
    text: str | bytes,
    overrides: Sequence[str] = (),
    ranks: int | None = None,
    check_dataset: Callable[[str], None] | None = None,
    name: str = "input.dat",
) -> Problem:
    """Read an input file's content; InputError, with all errors, if it is illegal.

    `overrides` are the arguments of `--set`. With `ranks`, grids that are larger are refused. `check_dataset`
    raises HpcaiError for a dataset that is not there; with it, files that values name are looked for as well. Else
    pure: the same on every rank that is given the same.
    """
    mistakes = Mistakes(name)
    source = decoded(text)
    headers, blocks = read_blocks(lines_of(source, mistakes), mistakes)
    override(blocks, overrides, mistakes)
    check(blocks, ranks, check_dataset, mistakes)
    mistakes.end()
    sections = tuple(_section(block) for block in blocks)
    return Problem(
        headers=(headers[0], headers[1]),
        name=name,
        text=source,
        digest=hashlib.sha256(source.encode()).hexdigest(),
        overrides=tuple(overrides),
        run={key: values[0] for key, values in sections[0].values.items()},
        run_defaulted=sections[0].defaulted,
        sections=sections[1:],
    )


def _section(block: Block) -> Section:
    """The values of all KEYs of a faultless block, and which of them are defaults."""
    given = {name: entry.values for name, entry in block.entries.items()}
    values = {key.name: given.get(key.name, key.default_in(block.name)) for key in keys_of(block.name)}
    return Section(block.name, values, frozenset(values) - frozenset(given))

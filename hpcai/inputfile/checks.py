"""Checks across lines of the input: missing KEYs, grids that do not fit, too many tests, missing files."""

from collections.abc import Callable, Sequence
from math import prod
from os.path import abspath, isfile

from hpcai.errors import HpcaiError
from hpcai.inputfile.blocks import Block, allowed_sections
from hpcai.inputfile.cases import GRID, file_of
from hpcai.inputfile.key import MOST_TESTS, Value
from hpcai.inputfile.keys import keys_by_name, keys_of
from hpcai.inputfile.mistakes import Mistakes, Place

CURE = "mpirun -np N starts N, --plan --ranks N plans for N"


def check(
    blocks: Sequence[Block], ranks: int | None, check_dataset: Callable[[str], None] | None, mistakes: Mistakes
) -> None:
    """Record the mistakes that involve several lines; blocks[0] is the run's."""
    if not blocks[1:]:
        mistakes.add(Place("the file"), f"it has no section, so there is nothing to run; allowed: {allowed_sections()}")
    for block in blocks[1:]:
        if block.known:
            _check_required(block, mistakes)
            _check_used(block, mistakes)
            _check_grid(block, ranks, mistakes)
            if check_dataset is not None:
                _check_datasets(block, check_dataset, mistakes)
                _check_files(block, mistakes)
    repetitions = _values(blocks[0], "REPEAT")
    tests = sum(_tests(block) for block in blocks[1:]) * (int(repetitions[0]) if repetitions else 1)
    if tests > MOST_TESTS:
        mistakes.add(Place("the file"), f"it asks for {tests} tests; allowed: {MOST_TESTS}")


def _check_required(block: Block, mistakes: Mistakes) -> None:
    for key in keys_of(block.name):
        if not key.default_in(block.name) and key.name not in block.entries:
            mistakes.add(block.place, f"[{block.name}] needs a line with {key.name}; allowed: {key.allowed}")


def _check_used(block: Block, mistakes: Mistakes) -> None:
    """Refuse values that another KEY's choice has no use for, other than the default."""
    for key in keys_of(block.name):
        if key.used_by is None or key.name not in block.entries:
            continue
        other, users = key.used_by
        idle = [value for value in _grid(block, other) if value not in users]
        default = key.default_in(block.name)
        given = [value for value in _values(block, key.name) if value not in default]
        if idle and given:
            message = f"{key.name} {given[0]} has no effect with {other} {idle[0]}"
            allowed = f"{other} {' or '.join(users)}, or {key.name} {default[0]}"
            mistakes.add(block.entries[key.name].place, f"{message}; allowed: {allowed}")


def _values(block: Block, name: str) -> tuple[Value, ...]:
    entry = block.entries.get(name)
    return entry.values if entry else ()


def _grid(block: Block, name: str) -> tuple[Value, ...]:
    """The values of a KEY of the grid; none if they are faulty or missing."""
    return _values(block, name) if name in block.entries else keys_by_name()[name].default_in(block.name)


def _check_grid(block: Block, ranks: int | None, mistakes: Mistakes) -> None:
    given = [block.entries[name] for name in ("GROUPS", "DEGREE") if name in block.entries]
    groups, degrees = _grid(block, "GROUPS"), _grid(block, "DEGREE")
    if not given or not groups or not degrees:
        return
    place = given[0].place
    if len(groups) != len(degrees):
        counts = f"GROUPS has {len(groups)}, DEGREE {len(degrees)} values"
        mistakes.add(place, f"{counts}; allowed: as many of one as of the other, they pair up")
    splits = _values(block, "SPLIT")
    if len(splits) > 1 and len(splits) != len(groups):
        counts, allowed = f"SPLIT has {len(splits)}, GROUPS {len(groups)} values", "one, or one for each of GROUPS"
        mistakes.add(block.entries["SPLIT"].place, f"{counts}; allowed: {allowed}")
    for p, q in zip(groups, degrees, strict=False):
        needed = max(int(p), 1) * max(int(q), 1)
        if ranks is not None and needed > ranks:
            allowed = f"up to {ranks}, as many as there are: {CURE}"
            mistakes.add(place, f"GROUPS {p} x DEGREE {q} needs {needed} ranks; allowed: {allowed}")


def _check_datasets(block: Block, check_dataset: Callable[[str], None], mistakes: Mistakes) -> None:
    for spec in dict.fromkeys(_values(block, "DATASET")):
        try:
            check_dataset(str(spec))
        except HpcaiError as error:
            mistakes.add(block.entries["DATASET"].place, f"DATASET: {error}")


def _check_files(block: Block, mistakes: Mistakes) -> None:
    for name, entry in block.entries.items():
        for path in dict.fromkeys(map(file_of, entry.values)):
            if path and not isfile(path):
                message = f"there is no file {abspath(path)}; allowed: a path from where the program is started"
                mistakes.add(entry.place, f"{name}: {message}")


def _tests(block: Block) -> int:
    """Number of combinations of values; paired grid KEYs count as one."""
    together = {*GRID[1:], *(key.name for key in keys_of(block.name) if key.listed)}
    return prod(len(entry.values) or 1 for name, entry in block.entries.items() if name not in together)

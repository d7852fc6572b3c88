"""Reference page of input.dat (docs/INPUT.md), generated from the KEYs' declaration."""

from hpcai.inputfile.key import MOST_COLUMNS, MOST_TESTS, MOST_VALUES, Key
from hpcai.inputfile.keys import keys_of, sections
from hpcai.inputfile.values import words_for

_INTRODUCTION = f"""# input.dat

Two header lines of free text come first; they are repeated in the report. Every other line is one setting:
**value(s), KEY, free text**. Settings of the run come before the first section.

- The KEY is the first word of a line that is a KEY, in upper or lower case. Before it stand the values, behind it
  anything; in `rounds REPLAY` the first word is the value of the second. The order of the lines is free; a KEY stands
  once a section. A section may stand twice.
- Words are separated by blanks or tabs. `#` and `!` start a comment; a line that begins with one is no header line.
  Blank lines mean nothing. The text is UTF-8.
- Numbers: `32`, `1e3`, `0.5`, and `64K`, `1M`, `1G` in steps of 1024. A whole number may be written `32.0`.
- A KEY marked as a sweep takes up to {MOST_VALUES} values, {MOST_COLUMNS} columns in all.
  `GROUPS` and `DEGREE` pair up: the first of one with the first of the other. Everything else multiplies out, grids
  outermost, the last KEY of the table fastest. Each combination is one test, run REPEAT times with
  seeds SEED, SEED + 1, ...; at most {MOST_TESTS:,} in all. All values of a KEY marked as a list belong to one test.
- `--set [SECTION.]KEY=VALUE` on the command line replaces a setting of the file in every section that has the KEY, or
  in those named; several values are separated by blanks or commas; the last one given counts. Where sections have
  other values, as of `NETWORK`, it is for those that have the given one.
- A path cannot hold blanks, `#` or `!`.
- A KEY that is left out takes its default; one without a default must be given.
"""

_HEAD = ["| KEY | values | default | sweep | meaning |", "|---|---|---|---|---|"]


def reference() -> str:
    """The page as Markdown: the grammar, then a table for the run and one for each section."""
    parts = [_INTRODUCTION, "## Settings of the run\n", _table("")]
    for section in sections():
        parts += [f"## [{section.name}]\n\n{section.help[0].upper()}{section.help[1:]}.\n", _table(section.name)]
    return "\n".join(parts)


def _table(section: str) -> str:
    return "\n".join(_HEAD + [_row(key, section) for key in keys_of(section)]) + "\n"


def _allowed(key: Key) -> str:
    """The legal values; with a note where any path or number is legal too."""
    choices = [f"`{choice}`" for choice in key.choices]
    numbers = [key.allowed.split(" | ")[-1]] if key.kind in ("shapes", "power", "limit") else []
    return ", ".join([*choices, *numbers]) or key.allowed


def _row(key: Key, section: str) -> str:
    allowed = _allowed(key)
    values = key.default_in(section)
    default = f"`{words_for(key, values)}`" if values else "must be given"
    several = "yes" if key.sweep else "a list" if key.listed else "no"
    return f"| `{key.name}` | {allowed} | {default} | {several} | {key.help} |"

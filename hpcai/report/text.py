"""Text of the report; user text (headers, host names) is altered so that it cannot look like a row.

So parsers made for HPL read the report unchanged.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from hpcai.results.layers import Layer

LINE, DASHES = "=" * 80, "-" * 80
WIDTH = 200
NAME_WIDTH = 48  # label of HPL's residual, whose line begins in the first column
# Strings that parsers search for, and their replacements in headers, paths and machine names.
WORDS_OF_PARSERS = {"WR": "Wr", " Gflops": " GFLOP/s", "End of Tests": "End of tests", "HOSTLIST": "Hostlist"}
VERDICTS = {"PASSED": "Passed", "FAILED": "Failed"}
SUBJECT = re.compile(r"(level \w+: layer \d:|\S*) ?(.*)")  # of a reason, and its value
LIKE_A_ROW = re.compile(r"(\d+(?:\s+\d+){3})(?=\s+\d*\.\d*\s+[-+.\d])")  # four integers, a decimal, a number


def printed(lines: Iterable[str]) -> str:
    return "".join(f"{_plain(line)}\n" for line in lines)


def free(text: str) -> str:
    """User text, altered so that it does not count as a verdict."""
    return _replaced(text, VERDICTS)


def counted(count: int, thing: str) -> str:
    """A count with its noun in singular or plural."""
    return f"{count} {thing}{'' if count == 1 else 's'}"


def score(name: str, value: float | None, otherwise: str = "") -> str:
    return f"{name:>{NAME_WIDTH}}= {otherwise:>16}" if value is None else f"{name:>{NAME_WIDTH}}= {value:16.7f}"


def layer_line(layer: Layer) -> str:
    """The line of one of the nine layers."""
    return f"Layer {layer.number} : {free(layer.text)}"


def with_reasons(verdict: str, reasons: Sequence[str]) -> str:
    """A verdict with every reason; without the values to be if the line would be too wide."""
    line = "; ".join([verdict, *reasons])
    return line if len(line) <= WIDTH else "; ".join([verdict, *_short(reasons)])


def _short(reasons: Sequence[str]) -> list[str]:
    found: dict[str, list[str]] = {}
    for reason in reasons:
        parts = SUBJECT.match(re.split(", official|, reference", reason)[0])
        assert parts, "the pattern matches any text"
        subject, value = parts.groups()
        found.setdefault(subject, []).append(value)
    return [f"{subject} {' '.join(dict.fromkeys(values))}" for subject, values in found.items()]


def _plain(line: str) -> str:
    """A printable line without what parsers search for, at most WIDTH wide."""
    if not line.isprintable():
        line = "".join(letter if letter.isprintable() else " " if letter.isspace() else "?" for letter in line)
    line = LIKE_A_ROW.sub(r"\1,", _replaced(line, WORDS_OF_PARSERS))
    return line if len(line) <= WIDTH else line[: WIDTH - 3] + "..."


def _replaced(text: str, words: Mapping[str, str]) -> str:
    for word, other in words.items():
        text = text.replace(word, other)
    return text

"""The grammar of the input file: header lines, section lines, and settings as value(s), KEY, free text."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from hpcai.inputfile.key import Key, Value
from hpcai.inputfile.keys import keys_by_name, keys_of, section_names
from hpcai.inputfile.lines import Line
from hpcai.inputfile.mistakes import Mistakes, Place, looks_like, shown
from hpcai.inputfile.values import is_number, near_miss, read

FORM = "value(s), KEY, free text"
HEADERS = 2
_SECTION = re.compile(r"\[([^\]]*)\]")


@dataclass(slots=True)
class Entry:
    """A setting; without values if they were faulty, which is recorded as a mistake."""

    place: Place
    values: tuple[Value, ...] = ()


@dataclass(slots=True)
class Block:
    """The settings of the run (no name) or of a section; a section of unknown name takes every KEY."""

    name: str
    place: Place
    known: bool = True
    entries: dict[str, Entry] = field(default_factory=dict)


def read_blocks(lines: Iterable[Line], mistakes: Mistakes) -> tuple[list[str], list[Block]]:
    """The header lines, and the run's block followed by the sections in the order of the file."""
    every = list(lines)
    headers, rest = _divided(every)
    settings = [line for line in rest if not line.is_comment]
    if len(headers) < HEADERS and settings:
        mistakes.add(settings[0].place, "two header lines of free text must come first; this is already a setting")
    elif len(headers) < HEADERS:
        mistakes.add(Place("the file"), f"it ends after {len(headers)} of two header lines; allowed: two, then {FORM}")
    blocks = [Block("", Place("the settings of the run"))]
    for line in settings:
        if line.text[0] == "[":
            blocks.append(_section(line, mistakes))
        else:
            _setting(line, blocks[-1], mistakes)
    return [line.text for line in headers], blocks


def _divided(lines: list[Line]) -> tuple[list[Line], list[Line]]:
    """Header lines, and the lines after them; a comment is a header only if fewer than two other lines come first."""
    free: list[Line] = []
    end = 0
    for line in lines:
        if len(free) == HEADERS or not line.is_comment and _is_no_header(line):
            break
        end += 1
        if not line.is_comment:
            free.append(line)
    return free if len(free) == HEADERS else lines[:end][:HEADERS], lines[end:]


def _is_no_header(line: Line) -> bool:
    """Whether a line in a header's position is a section line or a legal setting."""
    if section := _SECTION.match(line.text):
        name, rest = _name(section), line.text[section.end() :].strip(" \t")
        return name in section_names() or looks_like([name], section_names()) is not None or rest[:1] in ("", "#", "!")
    words, key = _split(line.words)
    if key is None or not words or key.kind == "text" or read(key, words)[1]:
        return False
    return all(map(is_number, words)) or line.words[len(words)].isupper()


def _name(section: re.Match[str]) -> str:
    return section[1].strip(" \t").lower()


def _split(words: list[str]) -> tuple[list[str], Key | None]:
    """The words before the first KEY, and that KEY; the only value of a KEY may look like a KEY."""
    keys = [key_named(word) for word in words]
    begin = 1 if len(keys) > 1 and keys[1] and words[0] in keys[1].choices else 0
    for index, key in enumerate(keys[begin:], begin):
        if key:
            own = words[index:]  # a text may have the KEY's name as a word; the KEY is then the one in capitals
            index += own.index(key.name) if key.kind == "text" and key.name in own else 0
            return words[:index], key
    return words, None


def key_named(word: str) -> Key | None:
    """The KEY named by a word, case-insensitive for ASCII letters only."""
    return keys_by_name().get(word.upper()) if word.isascii() else None


def _section(line: Line, mistakes: Mistakes) -> Block:
    match = _SECTION.match(line.text)
    name = _name(match) if match else ""
    if name in section_names():
        return Block(name, line.place)
    likely = looks_like([name], section_names())
    what = f"section [{shown(name, 40)}] is unknown" if match else "a section line needs a name in brackets"
    mistakes.add(line.place, f"{what}{near_miss([name], section_names())}; allowed: {allowed_sections()}")
    return Block(likely[1], line.place) if likely else Block(name, line.place, known=False)


def allowed_sections() -> str:
    """The section lines that exist."""
    return " ".join(f"[{name}]" for name in section_names())


def _setting(line: Line, block: Block, mistakes: Mistakes) -> None:
    words, found = _split(line.words)
    if found is None:
        _no_key(line, words, block, mistakes)
        return
    key = found.of(block.name)
    values, wrong = read(key, words)
    meant = looks_like(words, [other.name for other in _keys_in(block) if other is not key]) if wrong else None
    if meant:
        _misspelt(line, meant, block, mistakes)
        return
    for message in wrong + _misplaced(key, block):
        mistakes.add(line.place, message)
    if key.name in block.entries:
        first = block.entries[key.name].place
        mistakes.add(line.place, f"{key.name} stands already in line {first.number}; allowed: once a section")
    block.entries.setdefault(key.name, Entry(line.place, () if wrong else values))


def _no_key(line: Line, words: list[str], block: Block, mistakes: Mistakes) -> None:
    keys = [key.name for key in _keys_in(block)]
    meant = looks_like(words, keys) or looks_like(words, list(keys_by_name()))
    if meant:
        _misspelt(line, meant, block, mistakes)
    else:
        mistakes.add(line.place, f"no word of this line is a KEY; allowed: {FORM}, with one of {' '.join(keys)}")


def _misspelt(line: Line, meant: tuple[str, str], block: Block, mistakes: Mistakes) -> None:
    key = keys_by_name()[meant[1]].of(block.name)
    mistakes.add(line.place, f"{shown(meant[0])} looks like {key.name}; {key.name} takes: {key.allowed}")
    block.entries.setdefault(key.name, Entry(line.place))


def _keys_in(block: Block) -> tuple[Key, ...]:
    return keys_of(block.name) if block.known else tuple(keys_by_name().values())


def _misplaced(key: Key, block: Block) -> list[str]:
    if key in _keys_in(block):
        return []
    where = f"in [{block.name}]" if block.name else "before the first section"
    home = "in " + " ".join(f"[{name}]" for name in key.sections) if key.sections else "before the first section"
    return [f"{key.name} stands {where}; allowed: {home}"]

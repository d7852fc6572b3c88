"""Mistakes of an input, collected and reported together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from hpcai.errors import InputError

MOST_MISTAKES = 200
WIDTH = 110
_LIKENESS = 0.78
_LONGEST_WORD = 24
_MOST_WORDS = 24


@dataclass(frozen=True, slots=True)
class Place:
    """Location of a mistake: a line of the file (number 0: the whole file) or an option of the command line."""

    text: str
    number: int = 0
    option: bool = False

    @property
    def label(self) -> str:
        """The location as text."""
        if self.option:
            return f"--set {shown(self.text)}"
        return f"line {self.number}: {shown(self.text)}" if self.number else shown(self.text)


class Mistakes:
    """Collects the mistakes of one input; too many of them end the parsing."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._found: dict[Place, list[str]] = {}
        self._count = 0

    def add(self, place: Place, message: str) -> None:
        """Record a mistake; InputError if there are too many."""
        self._found.setdefault(place, []).append(message)
        self._count += 1
        if self._count >= MOST_MISTAKES:
            raise InputError(self._text("reading stopped here"))

    def end(self) -> None:
        """InputError with all mistakes, if there are any."""
        if self._count:
            raise InputError(self._text("nothing was run"))

    def _text(self, end: str) -> str:
        lines = [f"{shown(self._name)}: {self._count} error{'s' if self._count > 1 else ''}, {end}"]
        for place in sorted(self._found, key=lambda place: (place.option, place.number)):
            lines.append(f"  {place.label}")
            lines += [f"      {message}" for message in self._found[place]]
        return "\n".join(lines)


def shown(text: str, width: int = WIDTH) -> str:
    """A user's text for the screen: shortened, without outer blanks, everything unprintable escaped."""
    cut = text[:width].strip() + (" ..." if len(text) > width else "")
    return "".join(c if c.isprintable() else " " if c == "\t" else ascii(c)[1:-1] for c in cut)


def looks_like(words: Iterable[str], names: Sequence[str]) -> tuple[str, str] | None:
    """The word and the name that are most similar, ignoring case; None without a near-miss."""
    from difflib import SequenceMatcher  # imported late: only errors need it

    best, pair = _LIKENESS, None
    matcher = SequenceMatcher(autojunk=False)
    few = [word for word in islice(words, _MOST_WORDS) if len(word) <= _LONGEST_WORD]
    for word, name in ((word, name) for word in few for name in names if word != name):
        matcher.set_seqs(word.lower(), name.lower())
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and matcher.ratio() > best:
            best, pair = matcher.ratio(), (word, name)
    return pair

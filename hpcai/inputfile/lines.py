"""Lines of an input: encoding, line ends, comments, invisible characters."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hpcai.inputfile.mistakes import Mistakes, Place

BYTE_ORDER_MARK = "\ufeff"
_LINE_END = re.compile(r"\r\n|\r|\n")
_COMMENT = re.compile(r"[#!]")
_BLANKS = re.compile(r"[ \t]+")
_UNDECODED = re.compile("[\ud800-\udfff]")
# C0 and C1 without tab, line and paragraph separators, zero-width characters, controls of the writing direction
_CONTROL = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line that is not blank: its place, and its text without outer blanks."""

    place: Place
    text: str

    @property
    def is_comment(self) -> bool:
        """Whether the whole line is a comment."""
        return self.text[0] in "#!"

    @property
    def words(self) -> list[str]:
        """The words before a comment."""
        return words_of(_COMMENT.split(self.text, maxsplit=1)[0])


def words_of(text: str) -> list[str]:
    """Words between blanks and tabs; no other character separates."""
    return [word for word in _BLANKS.split(text) if word]


def decoded(data: str | bytes) -> str:
    """The text of a file, bytes that are not UTF-8 kept as surrogates; a byte order mark stays."""
    return data if isinstance(data, str) else data.decode("utf-8", "surrogateescape")


def lines_of(text: str, mistakes: Mistakes) -> Iterator[Line]:
    """The lines that are not blank; illegal characters are recorded and removed."""
    if "\0" in text:
        mistakes.add(Place("the file"), "it is binary; allowed: text in UTF-8")
        mistakes.end()
    for number, raw in enumerate(_LINE_END.split(text.removeprefix(BYTE_ORDER_MARK)), start=1):
        place = Place(raw, number)
        text = clean(place, mistakes).strip(" \t")
        if text:
            yield Line(place, text)


def clean(place: Place, mistakes: Mistakes) -> str:
    """The text of a place without illegal characters, each kind recorded once."""
    text = place.text
    for pattern, what in ((_UNDECODED, "a byte that is not UTF-8"), (_CONTROL, "the control character")):
        if found := pattern.search(text):
            code = ord(found[0])
            name = f"0x{code & 0xFF:02X}" if 0xDC80 <= code <= 0xDCFF else f"U+{code:04X}"
            mistakes.add(place, f"column {found.start() + 1} holds {what} {name}; allowed: printable text in UTF-8")
            text = pattern.sub("", text)
    return text

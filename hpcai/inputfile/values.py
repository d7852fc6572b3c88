"""Conversion of words to the values of a KEY, and back."""

import re
from collections.abc import Sequence
from decimal import Context, Decimal

from hpcai.inputfile.key import MOST_COLUMNS, MOST_FOLDER, MOST_TEXT, PATH, Key, Value
from hpcai.inputfile.keys import keys_by_name
from hpcai.inputfile.mistakes import looks_like, shown
from hpcai.inputfile.split import parsed

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4}|[KMG])?")
_FOLDER = re.compile(rf"[A-Za-z0-9_-][A-Za-z0-9._-]{{0,{MOST_FOLDER - 1}}}")
_UNITS = {"K": 1024, "M": 1024**2, "G": 1024**3}
_LONGEST_NUMBER = 40
_EXACT = Context(prec=2 * _LONGEST_NUMBER)


def read(key: Key, words: Sequence[str]) -> tuple[tuple[Value, ...], list[str]]:
    """The values of a KEY given by words, and a mistake (then the values are meaningless)."""
    if not words:
        return (), [f"{key.name} has no value before it; allowed: {key.allowed}"]
    words = [" ".join(words)] if key.kind == "text" else words
    if len(words) > key.most:
        allowed = f"at most {key.most} values" if key.most > 1 else "one value"
        return (), [f"{key.name} takes {allowed}, here are {len(words)}"]
    values, wrong = [], []
    for word in words:
        try:
            values.append(_value(key, word))
        except ValueError as error:
            wrong.append(f"{key.name}: {error}; allowed: {key.allowed}")
    return tuple(values), wrong or _too_wide(key, values)


def words_for(key: Key, values: Sequence[Value]) -> str:
    """Words that parse to these values of a KEY; reals of a list keep their decimal point."""
    words = [_suffixed(value) if key.suffixed and isinstance(value, int) else str(value) for value in values]
    return words[0].removesuffix(".0") if len(words) == 1 and isinstance(values[0], float) else " ".join(words)


def _suffixed(number: int) -> str:
    """An integer in the largest unit of which it is a multiple."""
    unit = next((unit for unit in reversed(_UNITS) if number and number % _UNITS[unit] == 0), "")
    return f"{number // _UNITS.get(unit, 1)}{unit}"


def is_number(word: str) -> bool:
    """Whether a word is a number in this grammar."""
    return len(word) <= _LONGEST_NUMBER and _NUMBER.fullmatch(word) is not None


def _too_wide(key: Key, values: Sequence[Value]) -> list[str]:
    width = len(words_for(key, values))
    if width <= MOST_COLUMNS:
        return []
    return [f"{key.name}: the values take {width} columns; allowed: {MOST_COLUMNS} (a section may stand twice)"]


def _value(key: Key, word: str) -> Value:
    readers = {
        "integer": _integer,
        "real": _real,
        "choice": _choice,
        "dataset": _dataset,
        "folder": _folder,
        "shapes": _shapes,
        "power": _power,
        "limit": _limit,
        "split": _split,
        "text": _text,
    }
    value = readers[key.kind](key, word)
    if hidden := [letter for letter in word if not letter.isprintable()]:
        raise ValueError(f"{shown(word, 40)} holds U+{ord(hidden[0]):04X}, which is not printable")
    return value


def _number(word: str, kind: str) -> Decimal:
    if not is_number(word):
        hint = "" if word.isascii() else " (digits are 0 to 9)"
        raise ValueError(f"{shown(word, 40)} is not {kind}{hint}")
    unit = _UNITS.get(word[-1], 1)
    return _EXACT.multiply(Decimal(word if unit == 1 else word[:-1]), unit)


def _integer(key: Key, word: str) -> Value:
    number = _number(word, "a whole number")
    if number != number.to_integral_value():
        raise ValueError(f"{word} is not a whole number")
    if not (key.zero and number == 0 or key.low <= number <= key.high):
        raise ValueError(f"{word} is out of range")
    return int(number)


def _real(key: Key, word: str) -> Value:
    number = float(_number(word, "a number")) + 0.0  # no negative zero
    if not (key.zero and number == 0 or key.contains(number)) or abs(number) == float("inf"):
        raise ValueError(f"{word} is out of range")
    return number


def _choice(key: Key, word: str) -> Value:
    if word not in key.choices:
        raise ValueError(f"{shown(word, 40)} is unknown{near_miss([word], key.choices)}")
    return word


def _shapes(key: Key, word: str) -> Value:
    """The side of square matrices, or a choice."""
    return _integer(key, word) if is_number(word) else _choice(key, word)


def _power(key: Key, word: str) -> Value:
    """Watts, a choice, or a choice with a path."""
    return _real(key, word) if is_number(word) else _dataset(key, word)


def _limit(key: Key, word: str) -> Value:
    """Seconds, or a choice."""
    return _real(key, word) if is_number(word) else _choice(key, word)


def _split(key: Key, word: str) -> Value:
    if parsed(word) is None:
        raise ValueError(f"{shown(word, 40)} is no split")
    return word


def _dataset(key: Key, word: str) -> Value:
    if re.search(r"[#!\s]", word):
        raise ValueError(f"{shown(word, 40)} holds a blank, # or !, which a path here cannot have")
    folders = [choice.removesuffix(PATH) for choice in key.choices if choice.endswith(PATH)]
    if word in key.choices or any(word.startswith(folder) and word != folder for folder in folders):
        return word
    raise ValueError(f"{shown(word, 40)} is unknown{near_miss([word.partition(':')[0]], key.choices)}")


def _folder(key: Key, word: str) -> Value:
    if not _FOLDER.fullmatch(word):
        raise ValueError(f"{shown(word, 40)} is no plain folder name")
    if word.upper() in keys_by_name():
        raise ValueError(f"{word} is a KEY")
    return word


def _text(key: Key, word: str) -> Value:
    """Free text that the grammar reads back: without comments, sections and KEYs."""
    if re.search(r"[#!]|^\[", word):
        raise ValueError(f"{shown(word, 40)} holds # or !, or begins with [")
    others = (part for part in word.split() if part.upper() != key.name or part == key.name)
    if named := next((part for part in others if part.upper() in keys_by_name()), ""):
        raise ValueError(f"{named} is a KEY")
    if len(word) > MOST_TEXT:
        raise ValueError(f"{shown(word, 40)} has {len(word)} characters")
    return word


def near_miss(words: Sequence[str], names: Sequence[str]) -> str:
    """The near-miss among words, as a remark to append; empty if there is none."""
    pair = looks_like(words, names)
    return f" ({shown(pair[0])} looks like {pair[1]})" if pair else ""

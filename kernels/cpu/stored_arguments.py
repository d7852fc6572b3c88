"""Arguments of compiled functions that stay the same from call to call: stored once, and read by machine code.

Numba takes some ten microseconds at each call to unpack nested tuples of Python; an address takes none.
"""

from collections.abc import Iterator
from typing import Any, get_type_hints

import numpy as np
from numba import types

from .simd import I64, instruction


class Stored:
    """Named tuples of integers, stored one after the other at `address` as long as this exists."""

    def __init__(self, *values: Any) -> None:
        self._hold(np.fromiter(_flat(values), np.int64))

    @classmethod
    def of_numbers(cls, numbers: tuple[int, ...]) -> "Stored":
        """Of the integers of named tuples, one after the other."""
        stored = cls.__new__(cls)
        stored._hold(np.array(numbers, np.int64))
        return stored

    def _hold(self, numbers: Any) -> None:
        self._held = numbers
        self.address: int = numbers.__array_interface__["data"][0]


def _flat(values: tuple[Any, ...]) -> Iterator[int]:
    for value in values:
        if isinstance(value, tuple):
            yield from _flat(value)
        else:
            yield value


def reading(*kinds: type[Any]) -> Any:
    """The instruction that reads named tuples of these classes at an address, as `Stored` has stored them."""
    kind = types.Tuple([_type_of(each) for each in kinds])

    @instruction
    def read_stored(typingctx: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            first = builder.inttoptr(arguments[0], I64.as_pointer())
            words = (builder.load(builder.gep(first, [I64(place)])) for place in range(_words(kind)))
            return _tuple(context, builder, kind, words)

        return kind(types.intp), generate

    return read_stored


def words(*kinds: type[Any]) -> int:
    """64-bit words of named tuples of these classes."""
    return sum(_words(_type_of(each)) for each in kinds)


def _type_of(kind: type[Any]) -> Any:
    """Numba's type of a class of named tuples whose leaves are integers."""
    if kind is int:
        return types.int64
    fields = [_type_of(field) for field in get_type_hints(kind).values()]
    alike = all(field == fields[0] for field in fields)
    return types.NamedUniTuple(fields[0], len(fields), kind) if alike else types.NamedTuple(fields, kind)


def _parts(kind: Any) -> tuple[Any, ...]:
    """The types of the parts of a tuple; none of a number."""
    return tuple(getattr(kind, "types", ()))


def _words(kind: Any) -> int:
    return sum(map(_words, parts)) if (parts := _parts(kind)) else 1


def _tuple(context: Any, builder: Any, kind: Any, words: Iterator[Any]) -> Any:
    values = [_tuple(context, builder, part, words) if _parts(part) else next(words) for part in _parts(kind)]
    return context.make_tuple(builder, kind, values)

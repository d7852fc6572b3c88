"""Messages between leaders and the coordinator of a search: a line of JSON, and maybe others that are handed on.

What the coordinator only hands on, or writes down, it does not read: of 12,500 workers that would take too long.
"""

import json
from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]


def line(value: Any) -> bytes:
    """A value in JSON on one line. ValueError for a number that is not finite."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def encoded(message: Json, *lines: bytes) -> bytes:
    """A message as it is sent; `lines` of JSON go with it."""
    return b"\n".join([line(message), *lines])


def decoded(text: bytes | bytearray) -> Json:
    """A message that was sent; the lines that go with it are its `lines`, not read."""
    first, *lines = bytes(text).split(b"\n")
    return {**json.loads(first), "lines": lines}


END, TAKEN, NOTED = (encoded({"kind": kind}) for kind in ("end", "taken", "noted"))


def history(until: int, entries: Iterable[bytes]) -> bytes:
    """What one is told who knows `until` trials then; `entries` are encoded."""
    return b'{"kind":"history","until":%d,"entries":[%s]}' % (until, b",".join(entries))

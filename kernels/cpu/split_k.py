"""Sums of which threads made parts: the first part where the whole belongs, the others in layers beside."""

from typing import Any

from .blocking import share_of
from .compiled import compiled
from .load_store import bytes_of
from .packing import Matrix, add_to, part
from .parallel import in_team

_share = compiled(share_of)


@compiled
def layer_of(like: Any, c: Any, layers: Any, number: Any) -> Any:
    """Where part `number` of the sums of C goes."""
    size = bytes_of(like)
    if number == 0:
        return c
    return Matrix(layers + (number - 1) * c.rows * c.columns * size, c.rows, c.columns, c.columns * size, size)


@compiled
def add_layers(parts: Any, like: Any, c: Any, layers: Any) -> None:
    """Add all layers to C, each thread in some of the rows."""
    threads = parts.down * parts.across * parts.deep
    in_team(_add_rows, threads, (parts, like, c, layers, _share(c.rows, threads, 1)))


@compiled
def _add_rows(thread: Any, parts: Any, like: Any, c: Any, layers: Any, tall: Any) -> None:
    if thread * tall < c.rows:
        into = part(c, thread * tall, 0, tall, c.columns)
        for number in range(1, parts.deep):
            add_to(like, into, part(layer_of(like, c, layers, number), thread * tall, 0, tall, c.columns))

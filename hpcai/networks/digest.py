"""Digest of a network that does not depend on layer names; searches recognise networks by it."""

from functools import lru_cache
from hashlib import sha256

from hpcai.networks.graph import Graph
from hpcai.networks.layers import Add, Op


def digest(graph: Graph) -> str:
    """SHA-256 of the layers and what each reads, 64 hexadecimal digits; names and the order of branches do not count.

    The same in every process, and on every rank.
    """
    known: dict[str, bytes] = {}
    for layer in graph.layers:
        inputs = [known[name] for name in (*layer.inputs, *filter(None, [layer.shares]))]
        if isinstance(layer.op, Add):
            inputs.sort()
        known[layer.name] = sha256(b"".join([_written(layer.op), *inputs])).digest()
    return sha256(b"".join(sorted(known.values()))).hexdigest()


@lru_cache(4096)
def _written(op: Op) -> bytes:
    return repr(op).encode()

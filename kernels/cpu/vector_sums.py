"""One number of all lanes of a vector: sum, maximum."""

from collections.abc import Callable

from .simd import I32, Code, Value


def over_lanes(code: Code, vector: Value, join: Callable[[Value, Value], Value]) -> Value:
    """One number of all lanes: halves are joined until one is left."""
    distance = code.lanes // 2
    while distance:
        places = [lane ^ distance for lane in range(code.lanes)]
        vector, distance = join(vector, code.shuffle(vector, vector, places)), distance // 2
    return code.builder.extract_element(vector, I32(0))

"""Memory that kernels pack their operands into: taken once, and used again by every call."""

import numpy as np

_LINE = 64
_held = np.empty(0, np.uint8)


def workspace(nbytes: int) -> int:
    """The address of so many bytes, a multiple of 64; they are this thread's until the next call."""
    global _held
    if len(_held) < nbytes + _LINE:
        _held = np.zeros(nbytes + _LINE, np.uint8)
    return -(-_held.ctypes.data // _LINE) * _LINE

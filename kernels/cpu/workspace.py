"""Workspace for packed operands: allocated once for each interpreter thread and reused by every call."""

import threading

import numpy as np

_LINE = 64
_own = threading.local()


def workspace(nbytes: int) -> int:
    """Address of `nbytes` bytes at a multiple of 64; they belong to this thread until its next call."""
    if nbytes > getattr(_own, "nbytes", -1):
        _own.held, _own.nbytes = np.zeros(nbytes + _LINE, np.uint8), nbytes
        _own.address = int(-(-_own.held.ctypes.data // _LINE) * _LINE)
    address: int = _own.address
    return address

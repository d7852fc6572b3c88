"""The real program, one host of which has slow kernels or wrong results: slow_node.py FAULT HOST ARGUMENTS."""

import socket
import sys
from collections.abc import Callable
from time import sleep
from typing import Any

from planting import replaced

from hpcai.kernels.gemm import vendor
from hpcai.main import main

DELAY = 0.2  # seconds a product


def slow(genuine: Callable[..., Any]) -> Any:
    """Each product takes longer."""

    def multiply(*arguments: Any) -> None:
        sleep(DELAY)
        genuine(*arguments)

    return multiply


def wrong(genuine: Callable[..., Any]) -> Any:
    """One element of each product is wrong."""

    def multiply(tf32: bool, a: Any, b: Any, out: Any) -> None:
        genuine(tf32, a, b, out)
        out[0, 0] += 1000.0

    return multiply


if __name__ == "__main__":
    fault, host, *arguments = sys.argv[1:]
    if socket.gethostname() == host:
        replaced(vendor, "_multiply", {"slow": slow, "wrong": wrong}[fault]).__enter__()
    sys.exit(main(arguments))

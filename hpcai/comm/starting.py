"""Start of MPI, unless the launcher belongs to another MPI. No other module may have imported mpi4py.MPI before."""

import socket
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import mpi4py

from hpcai.comm.interfaces import interfaces, listed
from hpcai.machine import launcher, scheduler

PATIENCE = 30  # seconds: before MPI has started it may wait for ranks that still read their programs
# Its arguments: seconds, what it says after them, what it says if the rank ends. The rank writes a byte, or ends.
PROGRAM = """\
import select, sys
if not select.select([0], [], [], float(sys.argv[1]))[0]:
    print(sys.argv[2], file=sys.stderr, flush=True)
if not sys.stdin.buffer.read(1):
    print(sys.argv[3], file=sys.stderr, flush=True)
"""


def start_mpi(environment: Mapping[str, str]) -> None:
    """Start MPI, which ends with the interpreter. LaunchError without a library, or if it would abort the process.

    On several nodes also its first messages are sent. Until they have arrived a signal ends the rank at once.
    """
    mpi4py.rc.initialize, mpi4py.rc.finalize = False, True
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise launcher.no_library(str(error)) from error
    launcher.check_library(environment, MPI.Get_library_version())
    if MPI.Is_initialized():
        return
    with _explained(environment), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of another launcher, which `join` refuses
        MPI.Init_thread()
        if spans_nodes(environment):
            MPI.COMM_WORLD.Barrier()


def spans_nodes(environment: Mapping[str, str]) -> bool:
    """Whether the launcher has started ranks on other nodes; the same on every rank."""
    return launcher.declared_size(environment) > launcher.local_size(environment)


@contextmanager
def _explained(environment: Mapping[str, str]) -> Iterator[None]:
    """Meanwhile a process of the first rank says if MPI does not connect the nodes, which then waits, or aborts."""
    if launcher.environment_rank(environment) or not spans_nodes(environment):
        yield
        return
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", PROGRAM, str(PATIENCE), *_sentences(environment)],
        env=launcher.alone(environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # the launcher ends the session of the rank
    )
    yield
    with suppress(OSError):  # somebody has killed it
        process.communicate(b".")


def _sentences(environment: Mapping[str, str]) -> tuple[str, str]:
    """What is said of a rank that waits, and of one that has ended."""
    host = scheduler.node_name(environment, socket.gethostname())
    ranks = f"MPI to connect the {launcher.declared_size(environment)} ranks"
    rest = (
        f"{host} has the interfaces {listed(interfaces())}; allowed: one of a network of all nodes in "
        "OMPI_MCA_btl_tcp_if_include for Open MPI, UCX_NET_DEVICES or FI_TCP_IFACE for MPICH, or none"
    )
    return (
        f"hpcai: rank 0 on {host} has waited {PATIENCE} s for {ranks}; {rest}",
        f"hpcai: rank 0 on {host} ended while it waited for {ranks}; {rest}",
    )

"""Start of MPI, unless the launcher belongs to another MPI. No other module may have imported mpi4py.MPI before."""

import warnings
from collections.abc import Mapping

import mpi4py

from hpcai.machine import launcher


def start_mpi(environment: Mapping[str, str]) -> None:
    """Start MPI, which ends with the interpreter. LaunchError where the library would abort the process instead."""
    mpi4py.rc.initialize, mpi4py.rc.finalize = False, True
    from mpi4py import MPI

    launcher.check_library(environment, MPI.Get_library_version())
    if not MPI.Is_initialized():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of another launcher, which `join` refuses
            MPI.Init_thread()

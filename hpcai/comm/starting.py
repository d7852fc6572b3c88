"""Start of MPI, unless the launcher belongs to another MPI. No other module may have imported mpi4py.MPI before."""

import warnings
from collections.abc import Mapping

import mpi4py

from hpcai.machine import launcher


def start_mpi(environment: Mapping[str, str]) -> None:
    """Start MPI, which ends with the interpreter. LaunchError without a library, or if it would abort the process."""
    mpi4py.rc.initialize, mpi4py.rc.finalize = False, True
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise launcher.no_library(str(error)) from error
    launcher.check_library(environment, MPI.Get_library_version())
    if not MPI.Is_initialized():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of another launcher, which `join` refuses
            MPI.Init_thread()

"""What is said of a rank that waits while MPI connects the nodes, or ends meanwhile; and when it is asked for."""

import subprocess
import sys

import pytest

from hpcai.comm.starting import PROGRAM, spans_nodes
from hpcai.machine.library_variables import LEVEL_OF_TORCH, is_setting, quiet


@pytest.mark.parametrize(
    ("patience", "answer", "said"),
    [("60", b".", ""), ("0.01", b".", "waits\n"), ("60", b"", "ended\n"), ("0.01", b"", "waits\nended\n")],
)
def test_a_rank_that_waits_or_ends_is_explained(patience: str, answer: bytes, said: str) -> None:
    command = [sys.executable, "-I", "-S", "-c", PROGRAM, patience, "waits", "ended"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin and process.stderr
        first = process.stderr.readline() if said.startswith("waits") else b""
        _, rest = process.communicate(answer)
    assert (first + rest).decode() == said


@pytest.mark.parametrize(
    ("environment", "spans"),
    [
        ({}, False),
        ({"PMI_SIZE": "4", "MPI_LOCALNRANKS": "4"}, False),
        ({"PMI_SIZE": "4", "MPI_LOCALNRANKS": "2"}, True),
        ({"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}, True),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, True),
    ],
)
def test_launchers_tell_whether_there_are_other_nodes(environment: dict[str, str], spans: bool) -> None:
    assert spans_nodes(environment) == spans


def test_warnings_of_torchs_sockets_are_kept_off_unless_the_user_wants_them() -> None:
    ours, users = dict[str, str](), {LEVEL_OF_TORCH: "INFO"}
    for environment in (ours, users):
        quiet(environment)
    assert (ours, users) == ({LEVEL_OF_TORCH: "ERROR"}, {LEVEL_OF_TORCH: "INFO"})
    assert not is_setting(LEVEL_OF_TORCH)

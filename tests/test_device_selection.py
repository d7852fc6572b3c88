"""Every rank gets a GPU of its own, or all are refused together; the GPUs of the ranks are simulated."""

from pathlib import Path

import pytest
from launch import ROOT, mpirun, run_job


def taken(patch: pytest.MonkeyPatch, *seen: tuple[str, ...], busy: str = "") -> str:
    """The GPU that this rank takes if rank r sees seen[r], further ranks the last one; a busy GPU cannot be used."""
    import torch
    from mpi4py import MPI

    from hpcai.comm.device_selection import select_device
    from hpcai.comm.world import World
    from hpcai.errors import LaunchError
    from hpcai.machine import device

    comm = MPI.COMM_WORLD
    own = seen[min(comm.rank, len(seen) - 1)]

    def take(number: int) -> torch.device:
        if own[number] == busy:
            raise LaunchError(f"{busy} cannot be used")
        return torch.device("cuda", number)

    patch.setattr(device, "visible", lambda: own)
    patch.setattr(device, "take", take)
    found = select_device(World(comm, comm, "here"))
    return own[found.index] if found.type == "cuda" else "cpu"


@pytest.mark.parallel(4)
def test_every_rank_gets_a_gpu_of_its_own_or_all_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from mpi4py import MPI

    from hpcai.errors import Refused

    comm = MPI.COMM_WORLD
    many = tuple(f"GPU-{number}" for number in range(comm.size))
    assert taken(monkeypatch, many) == many[comm.rank]
    assert taken(monkeypatch, *((one,) for one in many)) == many[comm.rank]
    assert taken(monkeypatch, ()) == "cpu"
    faults = {
        "would share GPU-0": [many[:-1]],
        "there is no GPU for this rank": [many, ()],
        "GPU-1 cannot be used": [many],
    }
    for words, seen in faults.items() if comm.size > 1 else ():
        with pytest.raises(Refused, match=words) as refused:
            taken(monkeypatch, *seen, busy="GPU-1")
        assert refused.value.exit_code == 2 and str(refused.value).startswith("rank ")
        assert len(set(comm.allgather(str(refused.value)))) == 1


@pytest.mark.parallel(2)
def test_only_ranks_with_whole_gpus_use_nccl(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from mpi4py import MPI
    from torch import distributed

    from hpcai.comm.rendezvous import backend
    from hpcai.machine import device

    comm = MPI.COMM_WORLD
    monkeypatch.setattr(distributed, "is_nccl_available", lambda: True)
    for last, expected in (("GPU-b", "nccl"), ("MIG-b", "gloo"), ("cpu", "gloo")):
        own = last if comm.rank == comm.size - 1 else "GPU-a"
        monkeypatch.setattr(device, "identity", lambda chosen, own=own: own)
        assert backend(comm, torch.device("cuda", 0)) == expected
    monkeypatch.setattr(device, "identity", lambda chosen: "GPU-a")
    monkeypatch.setattr(distributed, "is_nccl_available", lambda: False)
    assert backend(comm, torch.device("cuda", 0)) == "gloo"


@pytest.mark.exhaustive
@pytest.mark.skipif(mpirun() is None, reason="NO mpirun: MPI TEST NOT RUN")
def test_a_job_whose_ranks_would_share_a_gpu_is_refused(tmp_path: Path) -> None:
    job = run_job([ROOT / "tests/jobs/one_gpu.py", ROOT / "tests/golden/input.dat"], 3, tmp_path)
    assert (job.returncode, job.stdout) == (2, "") and not list(tmp_path.iterdir())
    assert "hpcai: rank 0 on " in job.stderr and job.stderr.count("would share") == 1
    assert "ranks 0-2 would share GPU-pretended: the 3 ranks of this node see 1 in all" in job.stderr

"""What schedulers say in the environment: numbers of jobs, names of nodes, the end of a job."""

from math import inf

import pytest

from hpcai import clock
from hpcai.errors import LaunchError
from hpcai.machine import scheduler
from hpcai.machine.scheduler import job_label, node_name, seconds_of, time_limit

SLURM = {"SLURM_JOB_ID": "12"}
STEP = {**SLURM, "SLURM_STEP_ID": "0", "SLURMD_NODENAME": "fake2"}


@pytest.mark.parametrize(
    ("environment", "label"),
    [
        ({}, ""),
        (SLURM, "12"),
        ({"SLURM_JOB_ID": "14", "SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_ID": "3"}, "12_3"),
        ({"PBS_JOBID": "12.server.site"}, "12"),
        ({"PBS_JOBID": "12[3].server.site"}, "12_3"),
        ({"LSB_JOBID": "12", "LSB_JOBINDEX": "0"}, "12"),
        ({"LSB_JOBID": "12", "LSB_JOBINDEX": "3"}, "12_3"),
        ({"FLUX_JOB_ID": "\u01922hB7"}, "f2hB7"),
        ({"SLURM_JOB_ID": "../x/\n" + "9" * 99}, "x_" + "9" * 38),
    ],
)
def test_the_number_of_a_job_is_part_of_a_name(environment: dict[str, str], label: str) -> None:
    assert job_label(environment) == label


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({}, "host"),
        (STEP, "host"),  # an mpirun may have handed it on from the first node
        ({**STEP, "PMI_JOBID": "12.0"}, "fake2"),  # srun --mpi=pmi2
        ({**STEP, "PMI_JOBID": "12.1"}, "host"),
        ({**STEP, "PMIX_NAMESPACE": "slurm.pmix.12.0"}, "fake2"),
        ({**STEP, "PMI_HOSTNAME": "fake2"}, "fake2"),  # MPICH's mpirun in a job
        ({**STEP, "PMI_HOSTNAME": "fake3"}, "host"),
        ({"PMI_HOSTNAME": "fake3"}, "host"),
    ],
)
def test_a_node_has_slurms_name_where_the_launcher_confirms_it(environment: dict[str, str], name: str) -> None:
    assert node_name(environment, "host") == name


@pytest.mark.parametrize(
    ("left", "seconds"),
    [("59", None), ("1:30", 90), ("2:00:00", 7200), ("1-00:00:05", 86405), ("UNLIMITED", inf), ("INVALID", None)],
)
def test_the_time_that_is_left_of_a_job(left: str, seconds: float | None) -> None:
    assert seconds_of(left) == seconds


@pytest.mark.parametrize(
    ("left", "limit"), [("UNLIMITED", 0), ("1:40", 90), ("1:00:00", 3480), ("2-00:00:00", 172680), ("0:00", 1)]
)
def test_the_run_ends_before_its_job(monkeypatch: pytest.MonkeyPatch, left: str, limit: int) -> None:
    monkeypatch.setattr(scheduler, "_answer", lambda command, environment: left)
    since = int(clock.since_process_start())
    found = time_limit("job", SLURM)
    assert found == 0 if limit == 0 else max(1, since + limit - 1) <= found <= since + limit + 2
    end = str(int(clock.utc_instant().timestamp()) + 3600)
    assert 0 <= time_limit("job", {**SLURM, "SLURM_JOB_END_TIME": end}) - since - 3479 <= 4


def test_seconds_are_the_limit_themselves_and_other_jobs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (time_limit(0.0, {}), time_limit(1.5, {})) == (0.0, 1.5)
    with pytest.raises(LaunchError, match="no job of Slurm; allowed: seconds"):
        time_limit("job", {"PBS_JOBID": "12"})
    with pytest.raises(LaunchError, match="squeue does not say when job 12 ends"):
        time_limit("job", {**SLURM, "PATH": "/nowhere"})

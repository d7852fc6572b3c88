"""What the scheduler says: number of the job, name of this node, seconds that are left of the job.

Sources: manual pages of sbatch, srun and squeue (Slurm 22.05), qsub (OpenPBS), bsub (LSF), flux-submit.
"""

import re
import subprocess
from collections.abc import Mapping
from math import inf

from hpcai import clock
from hpcai.errors import LaunchError

ANSWER_SECONDS = 20.0  # in which squeue has to answer
MARGIN, MARGIN_SHARE = 120.0, 0.1  # between the end of a run and that of its job: seconds, or a share of what is left
NO_ARRAY = "0"  # what LSF says outside of an array


def job_label(environment: Mapping[str, str]) -> str:
    """Number of the job, and of its task of an array: `12`, `12_3`; empty without a scheduler."""
    array, task = environment.get("SLURM_ARRAY_JOB_ID", ""), environment.get("SLURM_ARRAY_TASK_ID", "")
    if array and task:
        return _plain(f"{array}_{task}")
    lsf = environment.get("LSB_JOBINDEX", NO_ARRAY)
    names = {
        "SLURM_JOB_ID": environment.get("SLURM_JOB_ID", ""),
        "PBS_JOBID": environment.get("PBS_JOBID", "").partition(".")[0],  # 12[3].server
        "LSB_JOBID": environment.get("LSB_JOBID", "") + f"_{lsf}" * (lsf != NO_ARRAY),
        "FLUX_JOB_ID": environment.get("FLUX_JOB_ID", ""),
    }
    return next((_plain(label) for name, label in names.items() if name in environment), "")


def _plain(label: str) -> str:
    """The label in characters for names of files, at most 40."""
    return re.sub(r"[^0-9A-Za-z]+", "_", label.replace("\u0192", "f")).strip("_")[:40]


def node_name(environment: Mapping[str, str], host: str) -> str:
    """Name of this node: Slurm's if a launcher confirms that it is this process's own, else that of the host.

    Several daemons of Slurm on one machine are nodes with one host name. A launcher inside a job may hand on the
    environment of its own node to ranks on others: MPICH's names the node of each rank, srun its job and step.
    """
    name = environment.get("SLURMD_NODENAME", "")
    step = f"{environment.get('SLURM_JOB_ID')}.{environment.get('SLURM_STEP_ID')}"
    by_srun = step in (environment.get("PMI_JOBID"), environment.get("PMIX_NAMESPACE", "").removeprefix("slurm.pmix."))
    return name if name and (by_srun or environment.get("PMI_HOSTNAME") == name) else host


def time_limit(setting: float | str, environment: Mapping[str, str]) -> float:
    """Seconds since this process began after which the run stops, as TIMELIMIT says; 0 for no limit.

    `job`: a whole number of seconds, so that the run ends in order before its Slurm job does: two minutes, or a tenth
    of what is left of the job if that is less. LaunchError if this is no job of Slurm, or if Slurm does not say.
    """
    if not isinstance(setting, str):
        return setting
    if (left := _seconds_left(environment)) == inf:
        return 0.0
    stop = left - min(MARGIN, MARGIN_SHARE * left) + clock.since_process_start()
    return float(max(1, int(stop)))


def _seconds_left(environment: Mapping[str, str]) -> float:
    """Seconds until the end of the Slurm job; infinite if it has none. Slurm is asked if it has not said so."""
    job, end = environment.get("SLURM_JOB_ID"), environment.get("SLURM_JOB_END_TIME", "")
    if job is None:
        raise LaunchError("TIMELIMIT job: this is no job of Slurm; allowed: seconds")
    if end.isdecimal():
        return max(1.0, int(end) - clock.utc_instant().timestamp())
    left = seconds_of(_answer(["squeue", "--noheader", "--jobs", job, "--format=%L"], environment))
    if left is None:
        raise LaunchError(f"TIMELIMIT job: squeue does not say when job {job} ends; allowed: seconds")
    return left


def _answer(command: list[str], environment: Mapping[str, str]) -> str:
    try:
        asked = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return asked.stdout.strip()


def seconds_of(left: str) -> float | None:
    """Seconds of squeue's `days-hours:minutes:seconds`; infinite without a limit; None if it is something else."""
    if left in ("UNLIMITED", "INFINITE"):
        return inf
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", left)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)

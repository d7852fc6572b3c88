"""A Slurm cluster on this machine for tests: munged, slurmctld, and a slurmd for each of its nodes.

All nodes have the host name and the processors of this machine. All files are in one folder, and the configuration of
the machine is not used. MpiDefault is none, as Slurm ships it.
"""

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

from launch import GRACE, LAUNCHER_PREFIXES, ROOT, Finished, Job, wait_until

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "squeue", "scancel", "scontrol")
PLACES = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
CONFIGURATION = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
KillWait=5
MinJobAge=600
SchedulerParameters=sched_interval=1,batch_sched_delay=0
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def obstacle() -> str:
    """Why there can be no cluster on this machine; empty if there can be one."""
    absent = [name for name in PROGRAMS if not shutil.which(name, path=PLACES)]
    if absent:
        return f"no {', '.join(absent)} (Debian: slurm-wlm, munge)"
    return "" if os.geteuid() == 0 else "Slurm's daemons start jobs as root only"


class Cluster:
    """A running cluster; a context manager that leaves no process behind. folder: of its files, outside of jobs'."""

    def __init__(self, folder: Path, nodes: int = 2) -> None:
        self.folder = folder
        self.names = [f"fake{number}" for number in range(1, nodes + 1)]
        self._daemons: list[Job] = []
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHER_PREFIXES)}
        own = {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": PLACES, "CUDA_VISIBLE_DEVICES": ""}
        path = os.pathsep.join(filter(None, [str(ROOT), inherited.get("PYTHONPATH")]))
        self.environment = {**inherited, **own, "PYTHONPATH": path}

    def __enter__(self) -> "Cluster":
        with contextlib.ExitStack() as failing:
            failing.callback(self._stop)
            self._start()
            failing.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _start(self) -> None:
        self.folder.chmod(0o755)  # munged refuses sockets that not everybody reaches
        (self.folder / "state").mkdir()
        ports = free_ports(len(self.names) + 1)
        nodes = "\n".join(
            f"NodeName={name} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 Port={port} CPUs=2 State=UNKNOWN"
            for name, port in zip(self.names, ports[1:], strict=True)
        )
        words = {"host": socket.gethostname(), "port": ports[0], "user": getpass.getuser(), "folder": self.folder}
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(nodes=nodes, **words))
        (self.folder / "munge.key").write_bytes(os.urandom(128))
        (self.folder / "munge.key").chmod(0o600)
        files = {"key-file": "key", "pid-file": "pid", "log-file": "log", "seed-file": "seed", "socket": "socket"}
        options = [f"--{name}={self.folder}/munge.{end}" for name, end in files.items()]
        self._daemon("munged", "--foreground", "--force", *options)
        self._await(lambda: (self.folder / "munge.socket").exists(), "munged")
        self._daemon("slurmctld", "-D", "-c")
        for name in self.names:
            self._daemon("slurmd", "-D", "-N", name)
        self._await(lambda: self.states() == ["idle"] * len(self.names), "the nodes")

    def _daemon(self, *command: str) -> None:
        self._daemons.append(Job(command, self.folder, self.environment))

    def _await(self, condition: Callable[[], object], what: str) -> None:
        if not wait_until(condition, 60):
            said = "\n".join("".join(daemon.output()) for daemon in self._daemons)
            raise RuntimeError(f"{what} did not start:\n{said[-4000:]}")

    def _stop(self) -> None:
        if len(self._daemons) > 1:
            self.ask("scancel", "--state=RUNNING,PENDING,SUSPENDED", f"--user={getpass.getuser()}")
            wait_until(lambda: not self.ask("squeue", "--noheader"), GRACE * 5)
        for daemon in reversed(self._daemons):
            daemon.__exit__()

    def states(self) -> list[str]:
        """State of each node, as sinfo names it."""
        return self.ask("sinfo", "--noheader", "--Node", "--format=%T").split()

    def ask(self, *command: str) -> str:
        """What a command of Slurm prints."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout.strip()

    def submit(self, *arguments: str, folder: Path, **environment: str) -> str:
        """Submit a batch job of a folder; its number."""
        own = {**self.environment, **environment}
        command = ["sbatch", "--parsable", *arguments]
        done = subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def facts(self, job: str) -> dict[str, str]:
        """What Slurm says about a job, or about a task of an array, named 12_3."""
        words = self.ask("scontrol", "--oneliner", "show", "job", job).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def ended(self, job: str, within: float = 240) -> str:
        """State and exit code of a job that has ended, such as `COMPLETED 0:0`."""
        wait_until(lambda: self.facts(job).get("JobState") in ENDED, within)
        facts = self.facts(job)
        return f"{facts.get('JobState')} {facts.get('ExitCode')}"

    def run(self, *command: str, folder: Path, **environment: str) -> Finished:
        """The end of a command, such as srun, in a folder."""
        with Job(command, folder, {**self.environment, **environment}) as job:
            return job.wait(300)


def free_ports(count: int) -> list[int]:
    """Numbers of ports that nobody listens at."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(each.getsockname()[1]) for each in sockets]

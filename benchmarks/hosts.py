"""Hosts on one machine, made of Linux network namespaces and joined by links of a given rate; one MPI job runs on all.

Each host has its own host name, network interfaces, shared memory and process numbers, so that neither MPI nor torch
sees that two of them share the machine. A further namespace, the head, holds the bridge that joins them and runs
mpirun. Nothing outside the namespaces changes. They end with the process that made them, however that ends.
Needed: root, and `ip`, `tc`, `unshare`, `nsenter`, `setpriv`; `obstacle` says what is missing.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

TOOLS = ("ip", "tc", "unshare", "nsenter", "setpriv")
HEAD = "head"
LINK = "eth0"  # of each host
BRIDGE = "bridge0"  # of the head
NETWORK = "198.18.0"  # RFC 2544, section C.2.2: addresses for benchmarks, which no site uses
GIGABIT = "1gbit"
OWN = ("--net", "--uts", "--mount", "--ipc")  # namespaces of a host; its processes have another of their own
# What a host does first. Arguments: its name, the file of host names. It prints its process number outside.
BOOT = """\
read -r number rest </proc/self/stat
hostname "$1"
mount --make-rprivate /
mount --bind "$2" /etc/hosts
mount -t tmpfs shm /dev/shm
[ ! -d /sys/fs/cgroup ] || mount --rbind /sys/fs/cgroup /mnt
mount -t sysfs sysfs /sys
[ ! -d /sys/fs/cgroup ] || mount --rbind /mnt /sys/fs/cgroup
[ "$1" = head ] || mount -t proc proc /proc
ip link set lo up
echo "$number"
exec sleep infinity
"""
# What mpirun calls in place of ssh: options, a host, a command.
REMOTE = """\
#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
read -r number <"{folder}/$1"
shift
exec nsenter -t "$number" --net --uts --mount --ipc --pid sh -c "$*"
"""


@dataclass(frozen=True)
class Launcher:
    """An mpirun, and how it is told where to start ranks.

    options: what it takes, of the program in place of ssh and of the hosts as `node1:2,node2:1`. product: a word of
    what `--version` prints.
    """

    mpirun: str
    python: str
    options: Callable[[str, str], Sequence[str]]
    product: str

    def obstacle(self) -> str:
        """Why it cannot be used, in one line; empty if it can."""
        there = shutil.which(self.mpirun) is not None
        printed = subprocess.run([self.mpirun, "--version"], capture_output=True, text=True).stdout if there else ""
        return "" if self.product in printed else f"there is no mpirun of {self.product}"


def hydra() -> Launcher:
    """MPICH's mpirun, of this Python's environment or on the PATH."""

    def options(remote: str, hosts: str) -> list[str]:
        return ["-launcher", "ssh", "-launcher-exec", remote, "-hosts", hosts]

    return Launcher(mpirun() or "mpirun", sys.executable, options, "HYDRA")


def open_mpi(folder: Path, *flags: str) -> Launcher:
    """The mpirun of version 5 of Open MPI, of the environment in a folder; flags: further ones."""

    def options(remote: str, hosts: str) -> list[str]:
        # The daemons name their folders by host and user, and all hosts have one /tmp.
        own = ["--prtemca", "prte_tmpdir_base", str(Path(remote).parent)]
        # Linux 6.18 schedules sessions as groups, and starved one of two that yield on the same processors for minutes.
        one_session = ["--leave-session-attached"]
        place = ["--host", hosts, "--map-by", "slot:oversubscribe"]
        return ["--prtemca", "plm_ssh_agent", remote, *own, *one_session, *place, *flags]

    return Launcher(str(folder / "bin/mpirun"), str(folder / "bin/python"), options, "Open MPI")


def obstacle() -> str:
    """Why no hosts can be made here, or MPICH not be started on them, in one line; empty if they can."""
    return no_namespaces() or hydra().obstacle()


def no_namespaces() -> str:
    """Why no hosts can be made here, in one line; empty if they can."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if os.geteuid():
        return "hosts of network namespaces need root"
    if missing:
        return f"hosts of network namespaces need {', '.join(missing)}"
    tried = subprocess.run(["unshare", *OWN, "--pid", "--fork", "true"], capture_output=True, text=True, check=False)
    return f"no namespaces can be made: {tried.stderr.strip()}" if tried.returncode else ""


def sent(interface: str, process: int | str = "self") -> int:
    """Bytes that an interface has sent so far, in the network namespace of a process."""
    lines = Path(f"/proc/{process}/net/dev").read_text().splitlines()
    (counters,) = (line.split(":")[1].split() for line in lines if line.strip().startswith(f"{interface}:"))
    return int(counters[8])


def mpirun() -> str | None:
    """The mpirun of this Python's environment, else the one on the PATH."""
    beside = Path(sys.executable).with_name("mpirun")
    return str(beside) if beside.exists() else shutil.which("mpirun")


class Hosts:
    """Hosts node1, node2, …, while the context lasts.

    rate: of both directions of each link, as `tc` writes it; None: no shaping. others: interfaces that each host has
    before its link and that lead nowhere, bridges without ports, by name; in the address, `{}` stands for the number of
    the host. launcher: that starts jobs, MPICH's unless given. table: the file /etc/hosts of the hosts, but not of the
    head. process: number of the first process of each.
    """

    def __init__(
        self,
        count: int = 2,
        rate: str | None = GIGABIT,
        others: Mapping[str, str] | None = None,
        launcher: Launcher | None = None,
    ) -> None:
        self.launcher = launcher or hydra()
        self.names = [f"node{number}" for number in range(1, count + 1)]
        self.address = {name: f"{NETWORK}.{number}" for number, name in enumerate([*self.names, HEAD], 1)}
        self._rate, self._others = rate, others or {}
        self._anchors: dict[str, subprocess.Popen[str]] = {}
        self.process: dict[str, int] = {}

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="hosts-"))
        self.table = self._folder / "hosts"
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._remove()

    def command(self, arguments: Sequence[str], ranks: int | Sequence[int] = 1, cwd: Path | None = None) -> list[str]:
        """The command that starts `arguments` on all hosts as one MPI job; consecutive ranks share a host.

        ranks: of each host, the same number or one for each.
        """
        counts = [ranks] * len(self.names) if isinstance(ranks, int) else ranks
        hosts = ",".join(f"{name}:{count}" for name, count in zip(self.names, counts, strict=True))
        options = self.launcher.options(str(self._folder / "remote"), hosts)
        return self.inside(HEAD, [self.launcher.mpirun, *options, "-np", str(sum(counts)), *arguments], cwd)

    def inside(self, host: str, arguments: Sequence[str], cwd: Path | None = None) -> list[str]:
        """The command that runs `arguments` on one host."""
        entered = [*OWN, *([] if host == HEAD else ["--pid"])]
        return ["nsenter", "-t", str(self.process[host]), *entered, f"--wdns={cwd or Path.cwd()}", *arguments]

    def run(
        self,
        arguments: Sequence[str],
        ranks: int | Sequence[int] = 1,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        timeout: float = 300.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run `arguments` on all hosts as one MPI job, as `command` says."""
        command = self.command(arguments, ranks, cwd)
        return subprocess.run(
            command, env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=timeout, check=False
        )

    def configure(self, host: str, command: str) -> None:
        """Run a command of `ip` or `tc`, given as one line, in the network of a host."""
        subprocess.run(["nsenter", "-t", str(self.process[host]), "--net", *command.split()], check=True)

    def sent(self, host: str) -> int:
        """Bytes that a host has sent over its link so far."""
        return sent(LINK, self.process[host])

    def lose(self, host: str) -> None:
        """End a host at once, with all its processes."""
        os.kill(self.process[host], signal.SIGKILL)

    def _make(self) -> None:
        table = "".join(f"{address} {name}\n" for name, address in self.address.items())
        for file in (self.table, self._folder / "hosts-of-head"):
            file.write_text(f"127.0.0.1 localhost\n{table}")
        remote = self._folder / "remote"
        remote.write_text(REMOTE.format(folder=self._folder))
        remote.chmod(0o755)
        for name in (HEAD, *self.names):
            self._boot(name)
        self.configure(HEAD, f"ip link add {BRIDGE} type bridge")
        self._up(HEAD, BRIDGE, f"{self.address[HEAD]}/24")
        for number, name in enumerate(self.names, 1):
            for interface, address in self._others.items():
                self.configure(name, f"ip link add {interface} type bridge")
                self._up(name, interface, address.format(number))
            self._join(name)
        for name in self.names:
            self._wait_for_link(name)

    def _boot(self, name: str) -> None:
        own = [*OWN, "--fork", *([] if name == HEAD else ["--pid"])]
        command = ["setpriv", "--pdeathsig", "KILL", "unshare", *own, "--kill-child", "sh", "-e", "-c", BOOT]
        table = self._folder / "hosts-of-head" if name == HEAD else self.table
        anchor = subprocess.Popen([*command, "boot", name, str(table)], stdout=subprocess.PIPE, text=True)
        self._anchors[name] = anchor
        assert anchor.stdout is not None
        self.process[name] = int(anchor.stdout.readline())
        (self._folder / name).write_text(f"{self.process[name]}\n")

    def _join(self, name: str) -> None:
        port = f"to-{name}"
        self.configure(HEAD, f"ip link add {port} type veth peer name {LINK} netns {self.process[name]}")
        self.configure(HEAD, f"ip link set {port} master {BRIDGE} up")
        self._up(name, LINK, f"{self.address[name]}/24")
        if self._rate:
            # a burst passes unshaped after each pause, so that it must be small beside a message
            shape = f"root tbf rate {self._rate} burst 32kb latency 50ms"
            self.configure(HEAD, f"tc qdisc add dev {port} {shape}")
            self.configure(name, f"tc qdisc add dev {LINK} {shape}")

    def _wait_for_link(self, name: str) -> None:
        """The kernel reports a link that was set up only some time later, a second at most."""
        state = Path(f"/proc/{self.process[name]}/root/sys/class/net/{LINK}/operstate")
        deadline = time.monotonic() + 10
        while state.read_text().strip() != "up":
            if time.monotonic() > deadline:
                raise RuntimeError(f"{LINK} of {name} is still not up")
            time.sleep(0.01)

    def _up(self, name: str, interface: str, address: str) -> None:
        self.configure(name, f"ip address add {address} dev {interface}")
        self.configure(name, f"ip link set {interface} up")

    def _remove(self) -> None:
        for anchor in self._anchors.values():
            anchor.kill()
            anchor.wait()
        shutil.rmtree(self._folder)

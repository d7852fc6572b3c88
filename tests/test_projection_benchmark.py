"""The control groups of benchmarks/projection.py, and its input."""

import os
import subprocess
import sys
from pathlib import Path

from launch import ROOT
from machine_requirements import missing

from hpcai.inputfile import parse

sys.path.insert(0, str(ROOT / "benchmarks"))
import slowed

SHARE = 0.2


def test_a_command_runs_in_the_group_of_its_host() -> None:
    if reason := slowed.obstacle():
        missing(f"{reason.upper()}: SLOWED HOSTS NOT RUN")
    host = os.uname().nodename
    with slowed.Slowed([host], SHARE) as groups:
        shown = subprocess.run(groups.command(["cat", "/proc/self/cgroup"]), capture_output=True, text=True, check=True)
        (folder,) = [line.rpartition(":")[2] for line in shown.stdout.splitlines() if "hpcai-" in line]
        assert folder.endswith(f"/{host}")
        (group,) = [root / folder.lstrip("/") for root in slowed.ROOTS if (root / folder.lstrip("/")).exists()]
        assert quota(group) == SHARE
    assert not group.exists() and not group.parent.exists()


def quota(group: Path) -> float:
    """Processors that a group has."""
    if (group / "cpu.max").exists():
        used, period = (group / "cpu.max").read_text().split()
    else:
        used, period = ((group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
    return int(used) / int(period)


def test_the_input_is_legal_for_all_numbers_of_ranks() -> None:
    text = (ROOT / "benchmarks" / "projection.dat").read_bytes()
    for ranks in (1, 2, 3, 4, 6, 8):
        problem = parse(text, ["GROUPS=1", f"DEGREE={ranks}"], ranks, lambda spec: None, "projection.dat")
        assert [case.degree for case in problem.cases(ranks, 0)] == [ranks, ranks]

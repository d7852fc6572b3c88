"""A network that does not fit into the memory of a node in data mode trains there in tensor and in pipeline mode.

The ranks of a job share the limit of one control group, as on a node: two ranks have half of it each.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from control_groups import ControlGroup, control_group
from idx_files import write_set
from launch import BENCH, ROOT, Finished, mpirun, start_job

from hpcai.inputfile import parse
from hpcai.plan.training_requirements import needing_less

RANKS = 2
MIB = 2**20
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
UNPLANNED = ROOT / "tests/jobs/unplanned.py"
# 21 million parameters, of which adam keeps two further numbers each, and few, small images.
INPUT = """Weights and the optimiser's state
need nearly all of the memory
0 CHECKPOINT
[ensemble]
fashion:pictures DATASET
resnet34 NETWORK
16 RESOLUTION
1 GROUPS
2 DEGREE
4 BATCH
1 EPOCHS
0 WARMUP
adam OPTIMISER
0.001 LEARNRATE
"""


def planned(folder: Path, parallel: str) -> float:
    """Bytes of a rank by the plan."""
    command = [sys.executable, str(BENCH), "--plan", "--ranks", str(RANKS), "input.dat", "--set", parallel]
    done = subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    (mib,) = re.findall(r"([\d.]+)  in all", done.stdout)
    return float(mib) * MIB


def run_in(group: ControlGroup, folder: Path, parallel: str, program: Path = BENCH) -> Finished:
    with group.entered():
        job = start_job([program, "input.dat", "--set", parallel], RANKS, folder)
    with job:
        return job.wait(600.0)


def prepared(folder: Path) -> Path:
    """A folder with the input and its pictures."""
    labels = np.arange(16) % 10
    write_set(folder / "pictures", labels, labels)
    (folder / "input.dat").write_text(INPUT, "utf-8")
    return folder


@pytest.mark.exhaustive
@pytest.mark.skipif(mpirun() is None, reason="NO mpirun: NO NETWORK TRAINED WITHIN LIMITED MEMORY")
def test_tensor_and_pipeline_mode_train_where_data_mode_has_too_little_memory(tmp_path: Path) -> None:
    folder = prepared(tmp_path)
    data, tensor, pipeline = (planned(folder, f"PARALLEL={mode}") for mode in ("data", "tensor", "pipeline"))
    most = max(tensor, pipeline)
    assert most < 0.9 * data
    with control_group() as group:
        if group is None:
            pytest.skip("NO CONTROL GROUPS CAN BE MADE: NO NETWORK TRAINED WITHIN LIMITED MEMORY")
        group.limit(RANKS * int(most))
        # What the ranks hold of files that processes outside the group have read does not count in the group.
        elsewhere = refused(run_in(group, folder, "PARALLEL=data"), group) - most
        group.limit(RANKS * int(most - elsewhere + 0.1 * (data - most)))
        refused(run_in(group, folder, "PARALLEL=data"), group)
        for mode in ("tensor", "pipeline"):
            passed(run_in(group, folder, f"PARALLEL={mode}"), folder)
        assert group.killed == 0
        job = run_in(group, folder, "PARALLEL=data", UNPLANNED)
        assert job.returncode not in (0, 2) and group.killed > 0, job


def refused(job: Finished, group: ControlGroup) -> float:
    """Before anything runs, with what is needed and allowed, by which file, and what needs less; returns the second."""
    assert job.returncode == 2 and job.stdout == ""
    needs = r"test 1 does not fit: a rank needs ([\d.]+) GiB \(process .*\); allowed: ([\d.]+) GiB, by (\S+), "
    found = re.search(needs, job.stderr)
    assert found and float(found[1]) > float(found[2]), job.stderr
    assert found[3] == str(group.limit_file)
    assert ", shared by 2 ranks, on " in job.stderr
    assert "PARALLEL tensor or pipeline divides weights and optimiser state among 2 ranks" in job.stderr
    return float(found[2]) * 2**30


def passed(job: Finished, folder: Path) -> None:
    """All checks hold, within the plan."""
    assert job.returncode == 0 and "PASSED" in job.stdout and "FAILED" not in job.stdout, job
    (test,) = json.loads((folder / job.stderr.rsplit(" are in ", 1)[1].strip() / "result.json").read_text())["tests"]
    assert test["scores"]["memory_share"] <= 1


def test_what_needs_less_memory_is_named_where_it_exists() -> None:
    def cure(*changes: str) -> str:
        (case,) = parse(INPUT, changes).cases(RANKS)
        return needing_less(case)

    divides = "; PARALLEL tensor or pipeline divides weights and optimiser state among 2 ranks"
    assert cure() == f"a smaller BATCH than 4 needs less{divides}"
    for change in ("PARALLEL=tensor", "PARALLEL=pipeline", "DEGREE=1"):
        assert cure(change) == "a smaller BATCH than 4 needs less"

"""Each group's first rank writes its log; groups that do not see the result folder are told about on rank 0."""

import json
from pathlib import Path
from typing import Any

import pytest
from mpi4py import MPI
from tiny import CPU

from hpcai.comm.grid import Group, split
from hpcai.inputfile import parse
from hpcai.mllog import FOLDER, SYSTEM, log_path
from hpcai.training import model_log
from hpcai.training.groups import ActiveGroup

pytest.importorskip("mlperf_logging", reason="NO mlperf_logging: LOGS NOT TESTED")
INPUT = """Site
header
on MLLOG
[ensemble]
fashion DATASET
8 BATCH
"""
DESCRIPTION = {"submitter": "Site", "division": "open", "system_name": "a machine"}
WORLD = MPI.COMM_WORLD


def active(group: Group, node: int) -> ActiveGroup:
    """A group whose rank pretends to be on a node."""
    return ActiveGroup(group, None, "none", 0, None, node)


def grid(degree: int) -> Group:
    group = split(WORLD, WORLD.size // degree, degree, "row")
    assert group is not None
    return group


@pytest.mark.parallel(4)
def test_nodes_are_those_of_the_group() -> None:
    group = grid(WORLD.size)
    half = (WORLD.rank >= WORLD.size // 2) * 7
    assert model_log._nodes(active(group, 0)) == (1, WORLD.size)
    assert model_log._nodes(active(group, half)) == (1 + (WORLD.size > 1), WORLD.size - WORLD.size // 2)
    alone = grid(1)
    assert model_log._nodes(active(alone, WORLD.rank)) == (1, 1)
    group.free()
    alone.free()


@pytest.mark.parallel(4)
def test_a_rank_that_does_not_see_the_folder_writes_nothing(tmp_path: Path, capsys: Any) -> None:
    group, folder = grid(1), Path(WORLD.bcast(str(tmp_path)))
    if WORLD.rank == 0:
        (folder / FOLDER).mkdir()
        (folder / FOLDER / SYSTEM).write_text(json.dumps(DESCRIPTION))
    WORLD.Barrier()
    (case,) = parse(INPUT, ["GROUPS=1", "DEGREE=1"]).cases(1)
    elsewhere = folder / "of-another-node"
    log = model_log.ModelLog(case, active(group, 0), CPU, str(folder if WORLD.rank == 0 else elsewhere))
    for _ in range(3):
        log.mark()
    log.write([], "resnet8", (8, 8), 0.5)
    WORLD.Barrier()
    said = capsys.readouterr().err
    if WORLD.rank == 0:
        assert log_path(folder, 1, 0).exists()
    if WORLD.rank == 0 and WORLD.size > 1:
        others = WORLD.size - 1
        assert said.startswith(f"hpcai: test 1: {others} of {WORLD.size} MLPerf logs could not be written, among them ")
        assert said.endswith("No such file or directory\n") and str(elsewhere) in said
    else:
        assert not said
    assert not elsewhere.exists()
    group.free()

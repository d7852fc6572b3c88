"""What a run loads before its first test: torch's compiler only where something of torch asks for it."""

import subprocess
import sys

import pytest
from launch import ROOT

PROGRAM = """
import sys
import torch
from hpcai.inputfile import parse
from hpcai.preflight.library_loading import load
load(parse(sys.argv[1]).cases(2, 0), torch.device("cpu"))
print("torch._dynamo" in sys.modules, "sympy" in sys.modules)
"""
INPUT = "Start-up\nof a run\n[ensemble]\nfashion DATASET\n8 BATCH\n{grid}\n{optimiser} OPTIMISER\n"


def loaded(grid: str, optimiser: str) -> str:
    """Whether torch's compiler is loaded, and what it computes shapes with."""
    command = [sys.executable, "-c", PROGRAM, INPUT.format(grid=grid, optimiser=optimiser)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("optimiser", ["sgd", pytest.param("adamw", marks=pytest.mark.slow)])
def test_a_group_of_one_rank_does_not_load_torchs_compiler(optimiser: str) -> None:
    assert loaded("2 GROUPS\n1 DEGREE", optimiser) == "False False"


@pytest.mark.slow
def test_what_groups_of_several_ranks_load_is_part_of_the_baseline() -> None:
    assert loaded("1 GROUPS\n2 DEGREE", "sgd") == "True True"

"""The table of precisions: its rows agree with torch, and one more row is a precision that trains."""

import os
import subprocess
import sys

import pytest
import torch
from launch import ROOT

from hpcai.formulas.precision import OF_LAYERS, PRECISIONS, Precision
from hpcai.kernels.arithmetic import FP32
from hpcai.kernels.spec import DTYPES
from hpcai.opcount.products import OF_SQUARES

# A precision that the table lacks, entered before the table is read.
MORE = """
from hpcai.formulas import precision as table
from hpcai.kernels.spec import BF16
table.PRECISIONS["scaled16"] = table.Precision("scaled16", "X", 16, BF16, "bf16", 1 / 4, "bfloat16", scaled=True)

import torch
from hpcai import networks
from hpcai.inputfile import parse
from hpcai.models.build import build
from hpcai.opcount import traffic
from hpcai.train.precision import apply
from sample_input import ensemble

problem = parse(ensemble("fp32 scaled16 PRECISION"))
assert [case["PRECISION"] for case in problem.cases(1)] == ["fp32", "scaled16"]
graph = networks.build("resnet8", (8, 8), 3, 10)
assert traffic.step(graph, 4, "scaled16").nbytes < traffic.step(graph, 4, "bf16").nbytes < traffic.step(graph, 4).nbytes
module = build(graph, 1)
apply("scaled16", module, torch.device("cpu"))
module(torch.zeros(2, 3, 8, 8)).sum().backward()
print(*sorted({str(parameter.grad.dtype) for parameter in module.parameters()}))
"""


@pytest.mark.parametrize("row", PRECISIONS.values(), ids=str)
def test_types_are_those_of_torch(row: Precision) -> None:
    stored, weights = getattr(torch, row.arithmetic.stored), getattr(torch, row.weights)
    assert (row.activation_bytes, row.weight_bytes) == (stored.itemsize, weights.itemsize)
    assert row.pure == (weights != torch.float32) and row.product in DTYPES
    if row.rounded:
        assert row.arithmetic.roundoff == torch.finfo(stored).eps / 2
        assert row.arithmetic.normal == torch.finfo(stored).smallest_normal


def test_letters_are_different_and_every_type_has_a_ceiling() -> None:
    assert len({row.letter for row in PRECISIONS.values()}) == len(PRECISIONS)
    assert sorted(OF_LAYERS + OF_SQUARES) == sorted(DTYPES)
    assert OF_SQUARES == ("fp64", "int8") and PRECISIONS["fp32"].arithmetic == FP32


@pytest.mark.slow
def test_an_added_row_is_a_precision() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", MORE]
    done = subprocess.run(command, cwd=ROOT / "tests", env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["torch.bfloat16", "torch.float32"], done.stderr

"""What a run loads before its first test: torch's compiler only where something of torch asks for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from launch import ROOT, run_job

PROGRAM = """
import sys
import torch
from hpcai.inputfile import parse
from hpcai.preflight.library_loading import load
load(parse(sys.argv[1]).cases(2, 0), torch.device("cpu"))
print("torch._dynamo" in sys.modules, "sympy" in sys.modules)
"""
TOLD = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from hpcai.main import main
code = main(sys.argv[1:])
sys.stderr.write(f"torch's compiler: {'torch._dynamo' in sys.modules}\\n")  # at once: two ranks write
sys.exit(code)
"""
RUN = """A run
without torch's compiler
0 TELEMETRY
[ensemble]
fashion DATASET
64 SAMPLES
4 BATCH
1 EPOCHS
0 WARMUP
1 GROUPS
2 DEGREE
{mode} PARALLEL
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
def test_what_stages_load_is_part_of_the_baseline() -> None:
    assert loaded("1 GROUPS\n2 DEGREE\npipeline PARALLEL", "sgd") == "True True"


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["data", pytest.param("tensor", marks=pytest.mark.exhaustive)])
def test_a_run_with_groups_of_several_ranks_does_not_load_torchs_compiler(mode: str, tmp_path: Path) -> None:
    (tmp_path / "input.dat").write_text(RUN.format(mode=mode))
    job = run_job(["-c", TOLD, ROOT], 2, tmp_path, env={"OMP_NUM_THREADS": "1"})
    assert job.returncode == 0, job.stderr
    assert job.stderr.count("torch's compiler: False") == 2


def replica(compiled: bool) -> object:
    """A replica of one process."""
    import torch
    import torch.distributed as dist

    from hpcai.train.replica import wrapped

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        return wrapped(torch.nn.Linear(2, 2), compiled)
    finally:
        dist.destroy_process_group()


def test_a_replica_that_will_be_compiled_is_torchs_own() -> None:
    from torch.nn.parallel import DistributedDataParallel

    assert type(replica(True)) is DistributedDataParallel
    assert isinstance(replica(False), DistributedDataParallel)


def test_a_torch_that_asks_its_compiler_for_more_gets_it() -> None:
    """And an answer leaves nothing behind."""
    program = "import torch, test_start_up; {before}; test_start_up.replica(False); print('_dynamo' in vars(torch))"
    asks = "from hpcai.train import replica as r; r.SimpleNamespace = lambda **_: object()"
    for before, is_loaded in (("pass", "False"), (asks, "True")):
        command = [sys.executable, "-c", program.format(before=before)]
        path = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
        assert subprocess.run(command, env=path, capture_output=True, text=True, check=True).stdout.strip() == is_loaded


@pytest.mark.parametrize(
    ("section", "kept", "missing"),
    [
        ("[kernels]\n64 SHAPES", {"conv2d"}, True),  # of an earlier training
        ("[kernels]\n64 SHAPES", {"conv2d", "gemm"}, False),
        ("[ensemble]\nfashion DATASET\n8 BATCH\n1 GROUPS\n1 DEGREE", set(), False),
        ("[ensemble]\nfashion DATASET\n8 BATCH\n1 GROUPS\n1 DEGREE\nint8 PRECISION", {"gemm"}, True),
        ("[ensemble]\nfashion DATASET\n8 BATCH\n1 GROUPS\n1 DEGREE\nvendor auto KERNELS", {"gemm"}, True),
        ("[language]\ngenerated DATASET\n8 BATCH\n1 GROUPS\n1 DEGREE\ncustom KERNELS", {"conv2d"}, True),
        ("[weather]\ngenerated DATASET\n2 BATCH\n1 GROUPS\n1 DEGREE", {"conv2d"}, True),
        ("[weather]\ngenerated DATASET\n2 BATCH\n1 GROUPS\n1 DEGREE", {"roi_align"}, False),
        ("[comm]\n1K SIZES", set(), False),
    ],
)
def test_what_has_to_be_compiled_first_is_announced(
    section: str, kept: set[str], missing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from hpcai.inputfile import parse
    from hpcai.kernels.cpu import compiled
    from hpcai.preflight import library_loading

    monkeypatch.setattr(compiled, "kept", lambda kernel: kernel in kept)
    cases = parse(f"Start-up\nof a run\n{section}\n").cases(2, 0)
    assert library_loading.compiles(cases, torch.device("cpu")) == missing


def test_every_kernel_that_is_announced_has_a_folder() -> None:
    from hpcai.workloads.registry import workloads

    named = {kernel for each in workloads() for kernel in (*each.compiles, *each.compiles_if_custom)}
    assert "conv2d" in named and all((ROOT / "kernels" / kernel).is_dir() for kernel in named)

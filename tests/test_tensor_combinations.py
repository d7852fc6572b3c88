"""PARALLEL tensor in the real program, with every precision, kernel provider, optimiser and sampler that it takes."""

import json
from pathlib import Path
from typing import Any

import pytest
from job_folder import prepared
from launch import BENCH, ROOT, mpirun, run_job
from sampled_parameters import EXHAUSTIVE

from hpcai.verification import verify

SITE = ROOT / "contrib" / "site_kernels.py"
PRECISIONS = "PRECISION=fp32,bf16,pure16,fp16,halffp16"


def exhaustive(ranks: int, *settings: str) -> Any:
    return pytest.param(ranks, settings, marks=EXHAUSTIVE)


@pytest.mark.slow
@pytest.mark.skipif(mpirun() is None, reason="NO mpirun: PARALLEL tensor NOT RUN")
@pytest.mark.parametrize(
    ("ranks", "settings"),
    [
        exhaustive(2, "KERNELS=auto", "PRECISION=fp16"),
        (2, (PRECISIONS,)),
        exhaustive(2, PRECISIONS, "KERNELS=custom"),
        exhaustive(2, PRECISIONS, "KERNELS=auto"),
        exhaustive(2, "PRECISION=fp32,fp16", f"KERNELS=file:{SITE}"),
        exhaustive(2, "OPTIMISER=adam,adamw,adagrad", "LEARNRATE=0.01", "PRECISION=fp16", "MLLOG=on"),
        exhaustive(2, "NETWORK=resnet50", "RESOLUTION=32", "BATCH=5"),
        exhaustive(3, "DEGREE=3", "KERNELS=auto,custom", "SAMPLES=50"),  # shards of different widths
        exhaustive(4, "GROUPS=2", "SAMPLER=poisson,multinomial", "MAPPING=column", "SAMPLES=64"),
    ],
)
def test_sharded_models_pass_every_check(tmp_path: Path, ranks: int, settings: tuple[str, ...]) -> None:
    arguments = [BENCH, "--set", "PARALLEL=tensor", "SAMPLES=60", *settings]  # the last batch is a smaller one
    job = run_job(arguments, ranks, prepared(tmp_path), env={"OMP_NUM_THREADS": "1"})
    assert job.returncode == 0, job.stdout + job.stderr
    (path,) = tmp_path.glob("results/*/result.json")
    assert verify.differences(path) == []
    for test in json.loads(path.read_text())["tests"]:
        assert {check["verdict"] for check in test["checks"]} <= {"PASSED", "NOT CHECKED"}
        _a_shards_products_were_timed(test)


def _a_shards_products_were_timed(test: dict[str, Any]) -> None:
    """KERNELS auto times layers with the samples of all ranks of a model, and the dense layer's share of 10 classes."""
    settings, choice = test["settings"], test["raw"]["preparation"]["kernel_choice"]
    assert (choice is not None) == (settings["KERNELS"] == "auto")
    if choice:
        samples, classes = settings["BATCH"] * settings["DEGREE"], 10 // settings["DEGREE"]
        *convolutions, dense = (product["shape"].split() for product in choice["products"])
        assert {first for first, *_ in convolutions} == {f"n{samples}"}
        assert dense[:2] == [f"m{samples}", f"n{classes}"]

"""Which environment variables are recorded, the digest of the source, and what a run and --verify make of both."""

import json
from pathlib import Path
from typing import Any

import pytest
from alterations import verified
from launch import BENCH, run_job
from small_run import Run, bench, golden, rebuilt, renewed

from hpcai import __version__
from hpcai.errors import InputError
from hpcai.machine import program_source
from hpcai.machine.library_variables import is_setting, settings
from hpcai.record.library_variables import LONGEST, MOST, PREFIXES
from hpcai.record.loading import result_of

INPUT = """Levels
A small test
levels OUTPUT
[ensemble]
fashion DATASET
64 SAMPLES
1 GROUPS
1 DEGREE
32 BATCH
1 EPOCHS
"""
VARIABLES = {"NCCL_ALGO": "Ring", "OMP_PROC_BIND": "close", "OMP_NUM_THREADS": "1", "CUDA_HOME": "/cuda"}


@pytest.mark.parametrize("name", [
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"),
    *("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_REQUIRE_CUDA", "CUDA_HOME", "NCCL_VERSION"),
    *("OMPI_MCA_orte_num_nodes", "OMPI_MCA_ess_base_jobid", "I_MPI_HYDRA_DEBUG", "MPICH_INTERFACE_HOSTNAME"),
    *("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "PATH", "AWS_SECRET_ACCESS_KEY", "NCCL", "NCCL_"),
    *("NCCL_A B", "NCCL_\n"),
])  # fmt: skip
def test_what_is_no_setting_of_a_library(name: str) -> None:
    assert settings({name: "1"}) == {}


def test_every_prefix_is_recorded() -> None:
    given = {f"{prefix}X": "1" for prefixes in PREFIXES.values() for prefix in prefixes}
    assert settings(given) == given


def test_number_and_length_are_bounded_and_layer_6_hides_nothing() -> None:
    many = {f"GOMP_{number:03}": "x" for number in range(MOST)}
    found = settings({**many, "NCCL_ALGO": "é" + "x" * LONGEST, "UCX_TLS": "a\nb\udc80"})
    assert len(found) == MOST
    assert found["NCCL_ALGO"] == "?" + "x" * (LONGEST - 1) and found["UCX_TLS"] == "a?b?"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One rank whose user has set variables."""
    folder = tmp_path_factory.mktemp("level")
    (folder / "in.dat").write_text(INPUT)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in VARIABLES.items():
            patch.setenv(name, value)
        return bench([str(folder / "in.dat"), "--set", "LEVEL=hardware"], 1)


@pytest.mark.exhaustive
def test_a_run_prints_what_its_user_has_set(run: Run) -> None:
    report = run.job.stdout.splitlines()
    assert run.result["environment"]["variables"] == {"NCCL_ALGO": "Ring", "OMP_PROC_BIND": "close"}
    assert "Layer 3 : communication libraries: any release; NCCL_ALGO Ring, reference unset" in report
    assert "Layer 6 : programming model: any; OMP_PROC_BIND close" in report
    source = program_source.digest()
    assert f"Layer 7 : workload re-implementation: version {__version__}, source {source[:12]}" in report
    assert [line[:8] for line in report if line.startswith("Layer ")] == [f"Layer {number} " for number in range(1, 10)]


@pytest.mark.exhaustive
def test_a_broken_claim_is_a_reason_of_the_status(run: Run) -> None:
    reason = "level hardware: layer 3: NCCL_ALGO Ring, reference unset"
    (test,), summary = run.result["tests"], run.result["summary"]
    assert (test["status"], summary["valid"], summary["level"]) == ("INVALID", "INVALID", "hardware")
    assert reason in test["reasons"] and reason in summary["reasons"]
    assert f"hpcai: the result will be INVALID: {reason}" in run.job.stderr
    assert "level hardware: layer 8: SEED 1 NETWORK resnet8 BATCH 32 WARMUP 1" in run.job.stdout
    assert "\nlevel=hardware\n" in run.job.stdout
    assert ",level," in (run.folder / "result.csv").read_text()


@pytest.mark.slow
def test_removed_variables_are_found(run: Run, tmp_path: Path) -> None:
    assert verified(run.result, tmp_path) == []
    for change in ({"variables": {}}, {"source_sha256": ""}, {"variables": {"NCCL_ALGO": "Tree"}}):
        altered = {**run.result, "environment": {**run.result["environment"], **change}}
        assert any(line.startswith("digest: ") for line in verified(altered, tmp_path))
        assert verified(renewed(altered), tmp_path)


@pytest.mark.slow
def test_no_other_variable_can_be_put_into_a_result(run: Run, tmp_path: Path) -> None:
    made = json.loads(json.dumps(run.result))
    made["environment"]["variables"]["OMP_NUM_THREADS"] = "1"
    assert "environment: variables that are settings of libraries" in verified(rebuilt(made), tmp_path)
    for name, value in (("SECRET_KEY", "x"), ("NCCL_X", "x" * (LONGEST + 1)), ("NCCL_X", "a\nb")):
        made["environment"]["variables"] = {name: value}
        with pytest.raises(InputError, match="environment.variables"):
            result_of(made)


def said(folder: Path, result: dict[str, Any]) -> tuple[int, list[str]]:
    """Exit code and lines of --verify."""
    (folder / "result.json").write_text(json.dumps(result), "utf-8")
    done = run_job([BENCH, "--verify", folder / "result.json"], None, folder)
    return done.returncode, done.stdout.splitlines()


@pytest.mark.slow
def test_verify_says_that_the_source_differs(run: Run, tmp_path: Path) -> None:
    other = rebuilt({**run.result, "environment": {**run.result["environment"], "source_sha256": 64 * "a"}})
    code, lines = said(tmp_path, other)
    here = program_source.digest()[:12]
    assert code == 0 and len(lines) == 3 and "no SHA256SUMS" in lines[1]
    assert f"source {12 * 'a'} of version {__version__} made it, source {here} of the same version" in lines[0]
    for change in (run.result, rebuilt({**other, "version": "0.0.9"})):
        assert [len(lines) for _, lines in [said(tmp_path, change)]] == [2]


def test_verify_says_nothing_without_a_recorded_source(tmp_path: Path) -> None:
    result = golden()
    result["environment"] |= {"source_sha256": "", "variables": {}}
    code, lines = said(tmp_path, rebuilt(result))
    assert (code, len(lines)) == (0, 2) and "no SHA256SUMS" in lines[0]


def test_the_digest_depends_on_every_file_of_the_source(tmp_path: Path) -> None:
    package, kernels = tmp_path / "hpcai", tmp_path / "kernels"
    for file in (package / "a.py", kernels / "b.cu", kernels / "c.cuh", kernels / "d.h", tmp_path / "bench.py"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(file.name)
    (package / "kernels").symlink_to("../kernels")
    (package / "data.txt").write_text("no source")
    names = ["bench.py", "hpcai/a.py", "hpcai/kernels/b.cu", "hpcai/kernels/c.cuh", "hpcai/kernels/d.h"]
    files, before = program_source.files(package), program_source.digest(package)
    assert [*files] == names
    for path in files.values():
        text = path.read_text()
        path.write_text(text + " ")
        assert program_source.digest(package) != before
        path.write_text(text)
    assert program_source.digest(package) == before


def test_the_whole_program_is_in_the_digest() -> None:
    names = {*program_source.files()}
    assert {"bench.py", "hpcai/run.py", "hpcai/kernels/gemm/__init__.py"} <= names
    assert any(name.endswith(".cu") for name in names)
    assert is_setting("NCCL_ALGO")

"""A site's own kernels: used without changes to the program, named by the row, and checked like custom ones."""

import os
import py_compile
import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch
from examples.training import subjects_of, violated_claims
from fault_runs import ELEMENTWISE, EVALUATED, GRADIENT, LOST, NETWORK, RESIDUAL, CustomRun
from fault_runs import VENDOR_LOSS as LOSS
from launch import BENCH, ROOT, mpirun
from mpi4py import MPI
from small_run import rebuilt
from tiny import CPU

from hpcai.errors import DataError
from hpcai.inputfile import Case, parse
from hpcai.kernels import operators
from hpcai.preflight import case_checks
from hpcai.record.loading import result_of
from hpcai.results.alterations import changed
from hpcai.train import site_kernels
from hpcai.training.groups import agreed_site_kernels
from hpcai.verification import verify

RIGHT = ROOT / "contrib" / "site_kernels.py"
WRONG = """\
from hpcai.kernels.operators import on_cpu


def multiply(a, b, result):
    on_cpu.multiply(a, b, result)
    result[0, 0] *= 1.5
"""


LAZY = """\
from hpcai.kernels.operators import on_cpu

calls = {}


def convolve(direction, one, other, result, shape):
    calls[direction, shape] = calls.get((direction, shape), 0) + 1
    on_cpu.convolve(direction, one, other, result, shape)
    if direction == "weight_gradient" and calls[direction, shape] > 20:
        result.zero_()
"""


def case_of(path: Path | str) -> Case:
    said = "fashion DATASET\n1 GROUPS\n1 DEGREE\n8 BATCH\n0.1 LEARNRATE\n5 EPOCHS\n"
    (case,) = parse(f"a\nb\n[ensemble]\n{said}file:{path} KERNELS\n", name="input.dat").cases(1)
    return case


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> CustomRun:
    if mpirun() is None:
        pytest.skip("NO mpirun: OWN KERNELS NOT RUN")
    wrong = tmp_path_factory.mktemp("wrong") / "wrong.py"
    wrong.write_text(WRONG)
    kernels = f"KERNELS=file:{RIGHT},file:{wrong}"
    return CustomRun(tmp_path_factory.mktemp("own"), [BENCH], [kernels, "GROUPS=1", "DEGREE=2"])


@pytest.mark.slow
def test_right_kernels_pass_and_wrong_ones_fail(run: CustomRun) -> None:
    assert run.job.returncode == 1
    assert set(run.rows[0]) == run.names
    assert set(run.rows[0].values()) == {"PASSED"}
    failed = {name for name, verdict in run.rows[1].items() if verdict == "FAILED"}
    assert {RESIDUAL, ELEMENTWISE, NETWORK, LOSS, EVALUATED} == failed - {GRADIENT}


@pytest.mark.slow
@pytest.mark.skipif(mpirun() is None, reason="NO mpirun: OWN KERNELS NOT RUN")
def test_kernels_that_omit_work_in_the_timed_region_are_detected(tmp_path: Path) -> None:
    """All checks against the vendor's kernels before the timed region pass."""
    lazy = tmp_path / "lazy.py"
    lazy.write_text(LAZY)
    settings = [f"KERNELS=file:{lazy}", "GROUPS=1", "DEGREE=2", "EPOCHS=8"]
    found = CustomRun(tmp_path, [BENCH], settings)
    failed = {name for name, verdict in found.rows[0].items() if verdict == "FAILED"}
    assert LOST in failed and not failed & {RESIDUAL, ELEMENTWISE, LOSS, GRADIENT}


@pytest.mark.exhaustive
def test_rows_name_the_kernels_of_the_site(run: CustomRun) -> None:
    right, wrong = run.result["tests"]
    assert (right["tv"], wrong["tv"]) == ("WR11S1F4", "WR11S1F4")
    assert right["raw"]["site_kernels"] == {
        "sha256": sha256(RIGHT.read_bytes()).hexdigest(), "computes": ["convolve", "multiply"]
    }
    assert wrong["raw"]["site_kernels"]["computes"] == ["multiply"]
    said = f"Kernels : multiply of a file, sha256 {wrong['raw']['site_kernels']['sha256']}; all others are custom\n"
    assert said in run.job.stdout


@pytest.mark.slow
def test_rows_of_site_kernels_are_verified_and_must_name_the_file(run: CustomRun) -> None:
    (path,) = run.folder.glob("results/*/result.json")
    assert verify.differences(path) == []
    right, _ = subjects_of(result_of(run.result))
    hidden = changed("raw.site_kernels", None)
    assert violated_claims(right, hidden) == ["site_kernels if, and only if, KERNELS names a file"]
    run.result["tests"][0]["raw"]["site_kernels"] = None
    assert rebuilt(run.result)["tests"][0]["verdict"] == "FAILED"


REFUSED: dict[str, tuple[str | None, str]] = {
    "nothing.py": (None, "No such file or directory; allowed: a file of Python"),
    "kernels.txt": ("", "no file of Python; allowed: one whose name ends in .py"),
    "empty.py": ("", "computes nothing; allowed: functions convolve, multiply"),
    "broken.py": ("def multiply(", "cannot be executed: SyntaxError"),
    "raises.py": ("import a_package_that_nobody_has", "cannot be executed: ModuleNotFoundError"),
    "compiler.py": ("import subprocess\nsubprocess.run(['false'], check=True)", "executed: CalledProcessError"),
    "library.py": ("open('/nonexistent/lib.so')", "cannot be executed: FileNotFoundError"),
    "ends.py": ("raise SystemExit(3)", "cannot be executed: SystemExit: 3"),
    "no_function.py": ("multiply = 3", "computes nothing"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unusable_kernels_are_refused_before_anything_runs(name: str, tmp_path: Path) -> None:
    text, reason = REFUSED[name]
    if text is not None:
        (tmp_path / name).write_text(text)
    assert reason in case_checks._refused_here(case_of(tmp_path / name), CPU)


def test_the_example_is_not_refused() -> None:
    assert case_checks._refused_here(case_of(RIGHT), CPU) == ""


def product() -> Any:
    return operators.dense(torch.ones(3, 4), torch.ones(2, 4))


def test_site_kernels_are_used_only_while_their_test_runs(tmp_path: Path) -> None:
    (tmp_path / "ones.py").write_text("def multiply(a, b, result):\n    result.fill_(1.0)\n")
    with site_kernels.installed_for(case_of(tmp_path / "ones.py")):
        assert (product() == 1).all()
    assert (product() == 4).all()


def test_a_minimal_file_is_right(tmp_path: Path) -> None:
    """As shown in docs/TUNING.md."""
    (shown,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "TUNING.md").read_text("utf-8"), re.DOTALL)
    (tmp_path / "least.py").write_text(shown)
    x, layer = torch.randn(7, 8), torch.nn.Linear(8, 3, bias=False)
    with site_kernels.installed_for(case_of(tmp_path / "least.py")):
        found = operators.dense(x, layer.weight)
        found.sum().backward()
    torch.testing.assert_close(found, layer(x))
    torch.testing.assert_close(layer.weight.grad, x.sum(0).expand(3, 8))


SHAPES: list[Callable[[], tuple[torch.Tensor, torch.nn.Module]]] = [
    lambda: (torch.randn(2, 8, 5, 6), torch.nn.Conv2d(8, 4, 1, bias=False)),
    lambda: (torch.randn(2, 8, 5, 6), torch.nn.Conv2d(8, 4, 3, padding=1, bias=False)),
    lambda: (torch.randn(7, 8), torch.nn.Linear(8, 3, bias=False)),
]


@pytest.mark.parametrize("made", SHAPES)
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16], ids=str)
def test_the_example_is_right(made: Callable[[], Any], kind: torch.dtype) -> None:
    torch.manual_seed(2)
    x, layer = made()
    x, layer = x.to(kind), layer.to(kind)
    with site_kernels.installed_for(case_of(RIGHT)), torch.no_grad():
        found = operators.convolution(x, layer.weight, layer) if x.ndim == 4 else operators.dense(x, layer.weight)
    torch.testing.assert_close(found.double(), layer.double()(x.double()), rtol=2e-2, atol=2e-2)


@pytest.mark.parallel(2)
def test_another_file_on_another_rank_is_refused(tmp_path: Path) -> None:
    rank = MPI.COMM_WORLD.rank
    (tmp_path / "kernels.py").write_text(f"def multiply(a, b, result):\n    return {rank}\n")
    case = case_of(tmp_path / "kernels.py")
    if rank == 0:
        agreed_site_kernels(case, MPI.COMM_WORLD)
        return
    with pytest.raises(DataError, match="has SHA-256 .* here; allowed: .*, as on rank 0"):
        agreed_site_kernels(case, MPI.COMM_WORLD)


def test_what_is_executed_is_what_the_digest_is_of(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("raise ValueError\n#" + WRONG.replace("\n", "\n#"))
    wrong, facts = py_compile.compile(str(path)), path.stat()
    assert wrong
    right = WRONG.ljust(facts.st_size)[: facts.st_size]
    path.write_text(right)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))  # so that Python takes the compiled file for up to date
    found, digest = site_kernels.functions(str(path))
    assert digest == sha256(right.encode()).hexdigest() and list(found) == ["multiply"]

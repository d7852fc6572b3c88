"""Modules that need no torch, MPI or compiler: those of hpcai/ and the modules of kernels/ that they may import."""

import subprocess
import sys
from pathlib import Path

import pytest
from launch import ROOT
from test_architecture import MODULES, imports, is_within, level, violations

PURE_LEVELS = (1, 2)
NOT_PURE = ("torch", "mpi4py", "numba", "cupy")
# Modules of kernels/ that need NumPy alone: these, and the package and the reference of each kernel.
PURE_KERNELS = ("arithmetic", "arrays", "layers", "providers", "residual", "spec", "verify")
NO_KERNELS = ("cpu", "cuda", "operators")  # folders of kernels/ that serve several kernels


def is_pure_kernel(name: str) -> bool:
    """Whether a module of kernels/ is one that pure modules may import."""
    path = MODULES[name]
    if path.parent == ROOT / "kernels":
        return path.stem in (*PURE_KERNELS, "__init__")
    return path.name in ("__init__.py", "reference.py") and path.parent.name not in NO_KERNELS


def pure_modules() -> list[str]:
    """Names of all pure modules, including those of kernels/."""
    pure = [name for name in MODULES if level(name) in PURE_LEVELS and not name.endswith("__main__")]
    return pure + [name for name in MODULES if is_within(name, ["hpcai.kernels"]) and is_pure_kernel(name)]


def test_pure_modules_import_no_torch_and_no_mpi() -> None:
    def impure(path: Path) -> list[str]:
        kernels = [name for name in imports(path) if is_within(name, ["hpcai.kernels"]) and not is_pure_kernel(name)]
        return [*kernels, *(name for name in imports(path) if is_within(name, NOT_PURE))]

    assert not violations([MODULES[name] for name in pure_modules()], impure)
    assert impure(ROOT / "hpcai/train/providers.py") and impure(ROOT / "kernels/gemm/vendor.py")


def test_pure_modules_load_no_torch_and_no_mpi() -> None:
    program = f"import sys, {', '.join(pure_modules())}; print(*sys.modules)"
    finished = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not {*NOT_PURE} & set(finished.stdout.split())


def test_results_are_verified_without_compilers_torch_and_mpi() -> None:
    program = "import sys, hpcai.verification.verify; print(*sys.modules)"
    finished = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not {"torch", "mpi4py", "numba", "cupy", "matplotlib"} & set(finished.stdout.split())


def test_a_plan_is_made_without_mpi() -> None:
    """One of a launcher's ranks plans, and the others end: a rank that had started MPI would wait for them."""
    program = "import sys, hpcai.plan.planner; print(*sys.modules)"
    finished = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "torch" in finished.stdout.split() and "mpi4py" not in finished.stdout.split()


@pytest.mark.slow
def test_every_pure_module_can_be_imported_first() -> None:
    program = (
        "import importlib, sys\n"
        f"for name in {pure_modules()}:\n"
        "    for other in [other for other in sys.modules if other.startswith('hpcai')]: del sys.modules[other]\n"
        "    importlib.import_module(name)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)

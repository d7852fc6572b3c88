"""CUDA C++ is compiled without a GPU, errors are reported, and code is cached until any of its sources changes."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
from cuda_sources import ARCHITECTURES, device_target, faults
from launch import ROOT
from sampled_parameters import fast, one_in

from hpcai.kernels.cuda import compiler
from hpcai.kernels.cuda.architecture import Target, target
from hpcai.kernels.cuda.compiler import Compiled, CompileError, compile_all, compiled, supported
from hpcai.kernels.cuda.program import Program, digest, sources
from hpcai.kernels.providers import Unavailable

KERNELS = sorted({path.parent.name for path in (ROOT / "kernels").glob("*/cupy_gpu.py")})
CLEAN = 'extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2.0f; }\n'
# 64 registers a thread at most, and 100 sums that are all needed until the end
SPILLING = """
extern "C" __global__ void __launch_bounds__(1024) crowded(const float *x, float *y, int n)
{
    float sums[100] = {};
    for (int i = 0; i < n; ++i)
        #pragma unroll
        for (int j = 0; j < 100; ++j) sums[j] = sums[j] * x[i] + x[i + j];
    #pragma unroll
    for (int j = 0; j < 100; ++j) y[100 * threadIdx.x + j] = sums[j];
}
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for machine code."""
    monkeypatch.setenv(compiler.PLACE, str(tmp_path / "cache"))
    return tmp_path / "cache" / "cuda"


@pytest.fixture
def hopper() -> Target:
    return device_target("sm_90a")


def program(folder: Path, text: str, *definitions: tuple[str, int | str], name: str = "made.cu") -> Program:
    """A program whose file is outside of the tree."""
    (folder / name).write_text(text)
    return Program(str(folder / name), "twice", definitions)


@pytest.mark.parametrize("architecture", fast(["sm_90a"], ARCHITECTURES))
@pytest.mark.parametrize("kernel", fast({*KERNELS} - {"fma_peak", "gemm"}, KERNELS))  # large
def test_every_kernel_compiles_without_warnings_and_without_spilling(kernel: str, architecture: str) -> None:
    wanted = device_target(architecture)
    programs = import_module(f"hpcai.kernels.{kernel}.cupy_gpu").programs(wanted)
    assert {each.path for each in programs} == {*(ROOT / "kernels" / kernel).rglob("*.cu")}
    for each, made in zip(programs, compile_all(programs, wanted, workers=2), strict=True):
        assert each.name in made.usage and made.image.startswith(b"\x7fELF")
        assert not faults(made), f"{each} for {architecture}"


def test_a_gpu_newer_than_the_compiler_gets_ptx(tmp_path: Path, cache: Path) -> None:
    device_target("sm_80")
    newest = max(supported())
    made = compiled(program(tmp_path, CLEAN), target((99, 0), supported()))
    assert f".target sm_{newest}".encode() in made.image and made.image.endswith(b"\0") and not made.usage


def test_definitions_and_headers_are_found(tmp_path: Path, cache: Path, hopper: Target) -> None:
    (tmp_path / "nearby.cuh").write_text('#include "deeper.cuh"\n')
    (tmp_path / "deeper.cuh").write_text("#define NAME twice\n")
    text = '#include "nearby.cuh"\n' + CLEAN.replace("twice", "NAME").replace("2.0f", "FACTOR")
    made = compiled(program(tmp_path, text, ("FACTOR", "3.0f")), hopper)
    assert [*made.usage] == ["twice"] and 0 < made.usage["twice"].registers < 32
    with pytest.raises(CompileError, match='identifier "FACTOR" is undefined'):
        compiled(program(tmp_path, text), hopper)


def test_products_and_sums_are_fused_only_if_allowed(tmp_path: Path, cache: Path, hopper: Target) -> None:
    text = 'extern "C" __global__ void twice(float *x) { x[0] = x[1] * x[2] + x[3]; }\n'
    joined = program(tmp_path, text)
    apart = Program(joined.source, "twice", fused_multiply_add=False)
    assert len({compiled(each, hopper).image for each in (joined, apart)}) == 2


def test_a_compile_error_is_reported_with_file_line_and_target(tmp_path: Path, cache: Path, hopper: Target) -> None:
    with pytest.raises(CompileError) as error:
        compiled(program(tmp_path, "\n\n__device__ int f() { return SIZE + absent; }\n", ("SIZE", 4)), hopper)
    assert "made.cu SIZE=4 for sm_90a: NVRTC_ERROR_COMPILATION" in str(error.value)
    assert 'made.cu(3): error: identifier "absent" is undefined' in str(error.value)
    assert not [*cache.iterdir()]


def test_warnings_and_spilled_registers_are_detected(tmp_path: Path, cache: Path, hopper: Target) -> None:
    unused = "__device__ int f() { int unused; return 1; }\n"
    found = [faults(compiled(program(tmp_path, text), hopper)) for text in (CLEAN, unused + CLEAN, SPILLING)]
    assert found[0] == []
    assert len(found[1]) == 1 and 'warning #177-D: variable "unused" was declared' in found[1][0]
    assert len(found[2]) == 1 and "crowded spills " in found[2][0]
    lost = "ptxas info : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized"
    assert lost in faults(Compiled(b"", lost)) and "no registers listed" in faults(Compiled(b"", ""))


def test_compiled_code_is_reused(
    tmp_path: Path, cache: Path, hopper: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = compiled(program(tmp_path, CLEAN), hopper)
    (entry,) = cache.iterdir()
    monkeypatch.setattr(compiler, "_compile", lambda *given: pytest.fail("compiled again"))
    assert compiled(program(tmp_path, CLEAN), hopper) == first
    assert [*cache.iterdir()] == [entry]


@pytest.mark.parametrize(
    "damage",
    [lambda data: b"", lambda data: data[:-1], lambda data: data[:40] + b"?" + data[41:], lambda data: data[:32]],
)
def test_damaged_code_is_compiled_again(
    tmp_path: Path, cache: Path, hopper: Target, damage: Callable[[bytes], bytes]
) -> None:
    first = compiled(program(tmp_path, CLEAN), hopper)
    (entry,) = cache.iterdir()
    entry.write_bytes(damage(entry.read_bytes()))
    assert compiler._read(entry.name) is None
    again = compiled(program(tmp_path, CLEAN), hopper)
    assert again.image == first.image and compiler._read(entry.name) == again
    assert [*cache.iterdir()] == [entry]


NOWHERE = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
from hpcai.kernels.cuda.architecture import target
from hpcai.kernels.cuda.compiler import compiled, supported
from hpcai.kernels.cuda.program import Program
print(len(compiled(Program(sys.argv[1], "twice"), target((9, 0), supported())).image))
"""


@pytest.mark.parametrize("place", ["cache", "file"])
def test_code_is_used_but_not_kept_without_room_or_folder(tmp_path: Path, hopper: Target, place: str) -> None:
    (tmp_path / "file").write_text("")
    where = {**os.environ, compiler.PLACE: str(tmp_path / place)}
    command = [sys.executable, "-c", NOWHERE, program(tmp_path, CLEAN).source]
    assert int(subprocess.check_output(command, cwd=ROOT, env=where)) > 1000
    assert not [*tmp_path.rglob("cuda/*")]


def test_the_digest_depends_on_all_sources_and_options(tmp_path: Path) -> None:
    (tmp_path / "inner.cuh").write_text("// one\n")
    (tmp_path / "outer.cuh").write_text('#include "inner.cuh"\n')
    text = '#include "outer.cuh"\n#  include "outer.cuh"\n#include "absent.cuh"\n'
    made = program(tmp_path, text)
    assert [path.name for path in sources(made.path)] == ["made.cu", "outer.cuh", "inner.cuh"]
    digests = [digest(made, "sm_80"), digest(made, "sm_90a"), digest(program(tmp_path, text, ("N", 1)), "sm_80")]
    digests.append(digest(Program(made.source, "twice", fused_multiply_add=False), "sm_80"))
    assert digest(Program(made.source, "another"), "sm_80") == digests[0]
    for name in ("made.cu", "outer.cuh", "inner.cuh"):
        with (tmp_path / name).open("a") as file:
            file.write("// changed\n")
        digests.append(digest(made, "sm_80"))
    assert len({*digests}) == len(digests)


def test_without_its_library_the_compiler_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy.cuda", None)
    with pytest.raises(Unavailable, match="^NVRTC, the compiler of CUDA C.*cupy"):
        supported()


@pytest.mark.parametrize(("folder", "absent"), one_in(2, [("cuda", {"cupy", "torch", "numba"}), ("*", {"cupy"})]))
def test_modules_for_cpus_load_no_cupy(folder: str, absent: set[str]) -> None:
    files = [path.relative_to(ROOT).with_suffix("") for path in (ROOT / "kernels").glob(f"{folder}/*.py")]
    names = ", ".join(f"hpcai.{'.'.join(path.parts).removesuffix('.__init__')}" for path in files)
    modules = subprocess.check_output([sys.executable, "-c", f"import sys, {names}; print(*sys.modules)"], cwd=ROOT)
    assert not absent & {*modules.decode().split()}


@pytest.mark.parametrize("variable", ["CI", "HPCAI_TEST_COMPLETE", ""])
def test_a_missing_compiler_fails_only_where_all_tests_have_to_run(variable: str) -> None:
    assert shutil.which("g++") or variable != "CI"  # continuous integration has to have it
    program = "import sys; sys.modules['cupy.cuda'] = None; import cuda_sources; cuda_sources.device_target('sm_80')"
    others = {name: value for name, value in os.environ.items() if name not in ("CI", "HPCAI_TEST_COMPLETE")}
    set_to = {variable: "1"} if variable else {}
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**others, **set_to, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
        capture_output=True,
        text=True,
    )
    assert ("Failed: NO NVRTC" if variable else "Skipped: NO NVRTC") in ended.stderr

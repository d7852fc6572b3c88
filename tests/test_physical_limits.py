"""Bounds of rates: identity of processors, the table of units, cycles, least operations, and the rows that FAIL."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from sample_kernel_rows import case_of, raw_of
from sample_records import altered
from synthetic_search import searched

from hpcai import clock
from hpcai.formulas.processor_units import ARM, NVIDIA, units_of
from hpcai.kernels import conv2d
from hpcai.kernels.cycles import FLIPPED, UNROLLED, numba_cpu
from hpcai.kernels.cycles.reference import result
from hpcai.machine.processor_identity import Identity, identity
from hpcai.networks import build
from hpcai.opcount.needed import network_share, nominal_share
from hpcai.record import check_declarations as declared
from hpcai.record.loading import result_of
from hpcai.record.processor import Processor
from hpcai.results.alterations import changed
from hpcai.results.measured import Before, Measured
from hpcai.results.physical_limits import MARGIN, bytes_bound, operations_bound, within_bound
from hpcai.verification import verify
from hpcai.workloads.kernels.checks import rows
from hpcai.workloads.nas.checks import build as build_search

ZEN4 = Processor(
    vendor="AuthenticAMD", family=25, model=17, features=("avx2", "fma", "avx512f", "avx512bw"), units=2, cycles=3e9
)
UNKNOWN = Processor(vendor="unknown", family=0, model=0, features=(), units=1, cycles=0.0)
H100 = Processor(vendor=NVIDIA, family=9, model=0, features=(), units=132, cycles=1.98e9)
X86 = "processor\t: 0\nvendor_id\t: {}\ncpu family\t: {}\nmodel\t\t: {}\nflags\t\t: fpu {}\n\nprocessor\t: 1\n"
WINDOWS = [
    conv2d.Shape(2, 4, 9, 8, 6, (3, 3), (1, 1), (1, 1)),
    conv2d.Shape(1, 4, 9, 8, 6, (3, 2), (2, 1), (2, 0), (1, 2), 2),
    conv2d.Shape(1, 4, 5, 5, 6, (1, 1)),
]


def test_processors_are_identified_by_what_the_kernel_says(tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text(X86.format("GenuineIntel", 6, 143, "avx2 fma avx512f avx512bw amx_int8 amx_bf16 sse2"))
    found = identity(file)
    assert found == Identity("GenuineIntel", 6, 143, ("avx2", "fma", "avx512f", "avx512bw", "amx_bf16", "amx_int8"))
    file.write_text("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n")
    assert identity(file) == Identity(ARM, 0x41, 0xD4F)
    file.write_text("processor : 0\nmachine : POWER10\n")
    assert identity(file) is identity(tmp_path / "missing") is None


@pytest.mark.parametrize(
    ("vendor", "family", "model", "features", "fp32", "fp64", "bf16", "int8"),
    [
        ("AuthenticAMD", 23, 1, "avx2 fma", 16, 8, 16, 64),
        ("AuthenticAMD", 23, 49, "avx2 fma", 32, 16, 32, 128),
        ("AuthenticAMD", 25, 1, "avx2 fma", 32, 16, 32, 128),
        ("AuthenticAMD", 25, 17, "avx2 fma avx512f avx512bw avx512_bf16", 32, 16, 64, 128),
        ("AuthenticAMD", 26, 2, "avx2 fma avx512f avx512bw avx512_bf16", 64, 32, 128, 256),
        ("GenuineIntel", 6, 85, "avx2 fma avx512f avx512bw", 64, 32, 64, 256),
        ("GenuineIntel", 6, 143, "avx2 fma avx512f avx512bw avx512_bf16 amx_bf16", 64, 32, 1024, 2048),
        ("GenuineIntel", 6, 0xB7, "avx2 fma", 32, 16, 32, 128),
        (ARM, 0x41, 0xD0C, "", 16, 8, 32, 64),
        (ARM, 0x41, 0xD4F, "", 32, 16, 128, 256),
        (ARM, 0x46, 1, "", 64, 32, 128, 256),
        (NVIDIA, 8, 0, "", 128, 128, 2048, 4096),
        (NVIDIA, 9, 0, "", 256, 256, 4096, 8192),
    ],
)
def test_units_of_known_processors(
    vendor: str, family: int, model: int, features: str, fp32: int, fp64: int, bf16: int, int8: int
) -> None:
    units = units_of(vendor, family, model, features.split())
    assert units is not None
    assert [units.operations(dtype) for dtype in ("fp32", "fp64", "bf16", "int8")] == [fp32, fp64, bf16, int8]
    assert units.operations("fp16") == bf16 and units.operations("tf32") >= fp32


@pytest.mark.parametrize("found", [("AuthenticAMD", 27, 0), ("GenuineIntel", 6, 85), (ARM, 0x41, 1), (NVIDIA, 13, 0)])
def test_processors_that_are_not_in_the_table_have_no_bound(found: tuple[str, int, int]) -> None:
    assert units_of(*found, ()) is None
    unknown = Processor(vendor=found[0], family=found[1], model=found[2], features=(), units=1, cycles=1e9)
    assert operations_bound(unknown, "fp32") is bytes_bound(unknown) is operations_bound(None, "fp32") is None
    assert [check.verdict for check in within_bound(1e30, None, unknown)] == ["NOT CHECKED"]
    assert [*within_bound(1e30, None, None)] == []


def test_datasheets_of_gpus_are_within_their_bounds() -> None:
    """Dense rates of NVIDIA's H100 SXM, in TFLOP/s."""
    for dtype, rate in {"fp32": 66.9, "fp64": 66.9, "tf32": 494.7, "bf16": 989.4, "int8": 1978.9}.items():
        most = operations_bound(H100, dtype)
        assert most is not None and 1e12 * rate < most < 1.25e12 * rate, dtype


def test_a_chain_is_exact_and_one_that_lacks_steps_counts_no_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    for start, added in product((0, 5, -7), (0, 3, -FLIPPED)):
        assert numba_cpu.chain(start, -FLIPPED, added, 3) % 2**64 == result(start, added, 3 * UNROLLED)
    assert numba_cpu.cycles_per_second(clock.now, 0.0, 0.0) > 0
    genuine = numba_cpu.chain
    monkeypatch.setattr(numba_cpu, "chain", lambda start, flipped, added, count: genuine(start, flipped, added, 1))
    assert numba_cpu.cycles_per_second(clock.now, 0.0, 0.0) == 0


@pytest.mark.parametrize("shape", WINDOWS)
def test_taps_that_meet_padding_are_not_needed(shape: conv2d.Shape) -> None:
    inside = 0
    for down, across in product(range(shape.y[2]), range(shape.y[3])):
        for tap, other in product(range(shape.kernel[0]), range(shape.kernel[1])):
            row = down * shape.stride[0] - shape.padding[0] + tap * shape.dilation[0]
            column = across * shape.stride[1] - shape.padding[1] + other * shape.dilation[1]
            inside += 0 <= row < shape.height and 0 <= column < shape.width
    assert conv2d.needed_operations(shape) == 2 * shape.batch * shape.filters * shape.w[1] * inside


def test_only_a_vendor_on_a_gpu_may_transform() -> None:
    plain, strided, _ = WINDOWS
    padded = conv2d.SPEC.operations(plain) / conv2d.needed_operations(plain)
    assert nominal_share(plain, "cuda", True) == 4 * padded > 4
    assert nominal_share(plain, "cuda", False) == nominal_share(plain, "cpu", True) == padded
    assert nominal_share(strided, "cuda", True) == nominal_share(strided, "cpu", False)
    graph = build("resnet8", (28, 28), 1, 10)
    assert 1 < network_share(graph, "cpu", True) < 1.2 < 2 < network_share(graph, "cuda", True) <= 4.7


def kernel_rows(processor: Processor | None, *alterations: Any, accelerated: bool = False) -> list[Any]:
    case = case_of("resnet8", "64")
    raw = replace(raw_of(case, accelerated=accelerated), processor=processor)
    return [*rows(case, altered(raw, *alterations))]


def test_rows_above_their_bound_fail_and_rows_above_a_measured_peak_do_not() -> None:
    assert all(row.verdict == "PASSED" for row in kernel_rows(ZEN4))
    slow_peak = kernel_rows(ZEN4, changed("rows.0.seconds", 1.0))
    assert all(row.verdict == "PASSED" for row in slow_peak) and max(row.share or 0 for row in slow_peak) > 1000
    failed = kernel_rows(ZEN4, changed("rows.*.seconds", 1e-12))
    assert all(row.verdict == "FAILED" for row in failed if row.operations or row.nbytes)
    assert all(row.verdict == "PASSED" for row in kernel_rows(None, changed("rows.*.seconds", 1e-12)))
    stopped = kernel_rows(replace(ZEN4, cycles=0.0))
    assert all((row.verdict, row.bound) == ("FAILED", 0.0) for row in stopped)
    wrong = kernel_rows(ZEN4, changed("rows.*.spot_residual", 1.5))
    assert all(row.verdict == "FAILED" for row in wrong)


def test_bounds_are_of_the_type_the_kernel_and_the_provider() -> None:
    found = {(row.kernel, row.dtype, row.provider, row.direction): row.bound for row in kernel_rows(ZEN4)}
    core = MARGIN * 3e9 * 2
    assert found["fma_peak", "fp32", "custom", "ceiling"] == pytest.approx(core * 32)
    assert found["gemm", "fp64", "vendor", "product"] == pytest.approx(core * 16)
    assert found["triad", "fp64", "custom", "ceiling"] == pytest.approx(core * 96)
    by = {row.provider: row.bound for row in kernel_rows(H100, accelerated=True) if "k3x3 s1x1" in row.shape}
    assert by["vendor"] == pytest.approx(4 * by["custom"])


@pytest.mark.parametrize(
    ("processor", "factor", "verdict"),
    [(ZEN4, 1.0, "PASSED"), (ZEN4, 1e-9, "FAILED"), (UNKNOWN, 1e-9, "NOT CHECKED")],
)
def test_a_search_that_is_too_fast_fails(processor: Processor, factor: float, verdict: str) -> None:
    found = result_of(searched())
    test: Any = found.tests[0]
    validation = test.raw.group_seconds.validation.min
    raw = replace(test.raw, processor=processor, seconds=factor * test.raw.seconds + validation)
    made = build_search(verify.cases_of(found)[0], Measured(raw, test.memory, test.telemetry), Before())
    (check,) = (each for each in made.checks if each.name == declared.BOUND.name)
    assert check.verdict == verdict and (made.scores.rank_bound is None) == (processor is UNKNOWN)

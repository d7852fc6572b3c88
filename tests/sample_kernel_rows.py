"""Made-up raw measurements of `[kernels]` in the workload's format: every requested product once."""

from typing import Any

from msgspec import convert
from sample_records import environment

from hpcai.inputfile import Case
from hpcai.opcount.ceilings import ceilings
from hpcai.opcount.products import Product, requested, squares, types_of_squares
from hpcai.workloads.kernels.record import KernelsRaw, MeasuredKernel, MissingKernel

ENVIRONMENT, ON_GPUS = environment(), environment(accelerators=2, device="cuda:0")
CEILINGS = {
    "fma_peak": ("sums100 steps4000", 800_000, 0),
    "triad": ("length1000", 2000, 24_000),
    "copy": ("length1000", 0, 16_000),
}
ABSENT = MissingKernel(kernel="triad", dtype="fp64", provider="vendor", why="PASSED no test")


def case_of(*shapes: str, batch: int = 4, types: tuple[str, ...] = ("fp32",)) -> Case:
    settings: dict[str, Any] = {"SHAPES": shapes, "BATCH": batch, "RESOLUTION": 0, "PRECISION": types}
    settings |= {"SEED": 1, "TELEMETRY": 30.0}
    return Case(3, "kernels", settings)


def raw_of(case: Case, *automatic: int, accelerated: bool = False) -> KernelsRaw:
    """Custom takes a microsecond for each 1000 operations, the vendor 1.5; with the ceilings of a CPU or of GPUs."""
    products = [*requested(case), *squares(automatic, types_of_squares(case))]
    rows = [measured(product, provider) for product in products for provider in ("custom", "vendor")]
    return KernelsRaw(threads=1, ranks=2, missing=(ABSENT,), rows=(*ceiling_rows(accelerated), *rows))


def measured(product: Product, provider: str) -> MeasuredKernel:
    seconds = product.operations / 1e9 * (1 if provider == "custom" else 1.5)
    names = ("kernel", "direction", "shape", "of", "occurrences", "dtype", "operations", "nbytes")
    found = {name: getattr(product, name) for name in names}
    checked = "random vectors" if product.operations > 2**31 else "every element"
    own: dict[str, Any] = {"threads": 1, "provider": provider, "variant": "", "seconds": seconds, "checked": checked}
    return convert({**found, **own, "residual": 0.0 if product.dtype == "int8" else 0.25}, MeasuredKernel)


def ceiling_rows(accelerated: bool) -> list[MeasuredKernel]:
    """All but the vendor's triad: 8 GFLOP/s of every type, 2.4 GB/s of the triad, 1.6 GB/s of the copy."""
    rows = []
    for kernel, dtype, providers in ceilings(accelerated):
        shape, operations, nbytes = CEILINGS[kernel]
        rows += [ceiling(kernel, dtype, shape, operations, nbytes, provider) for provider in providers]
    return [row for row in rows if (row.kernel, row.dtype, row.provider) != (ABSENT.kernel, ABSENT.dtype, "vendor")]


def ceiling(kernel: str, dtype: str, shape: str, operations: int, nbytes: int, provider: str) -> MeasuredKernel:
    found = {
        "kernel": kernel,
        "direction": "ceiling",
        "shape": shape,
        "of": "ceiling",
        "occurrences": 1,
        "dtype": dtype,
        "threads": 1,
        "provider": provider,
        "variant": "",
        "operations": operations,
        "nbytes": nbytes,
        "seconds": 1e-4 if kernel == "fma_peak" else 1e-5,
        "residual": 0.0,
        "checked": "every element",
    }
    return convert(found, MeasuredKernel)

"""Claims about `[kernels]`: the products in the input and the ceilings, with counts by their shapes."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from hpcai.claims.memory_claims import MEMORY
from hpcai.claims.processor_claims import processor_claims
from hpcai.claims.telemetry_claims import TELEMETRY
from hpcai.inputfile import Case
from hpcai.kernels import copy, fma_peak, triad
from hpcai.kernels.providers import VENDOR
from hpcai.kernels.spec import DTYPES
from hpcai.kernels.verify import EVERY_ELEMENT, RANDOM_VECTORS, verification
from hpcai.opcount.ceilings import CEILING, COPY, FMA_PEAK, TRIAD, ceilings
from hpcai.opcount.products import PRODUCT, SQUARE, Product, automatic, requested, squares, types_of_squares
from hpcai.results.alterations import appended, changed, removed, repeated, together
from hpcai.results.claim import Claim, Claims, Subject
from hpcai.workloads.kernels.record import KernelsRaw, MeasuredKernel
from hpcai.workloads.kernels.scores import COMPARED, providers_of

SMALLEST_AUTOMATIC = 512
LEAST_SPOT_CHECKS = 1
AUTOMATIC = "auto"  # example with automatic sizes


class MissingSupport(NamedTuple):
    """A kernel and type that a provider does or does not support."""

    kernel: str
    dtype: str
    provider: str


SHAPE_BY_SHAPE = MissingSupport("gemm", "int8", VENDOR)  # torch multiplies bytes of some shapes only
NEVER_MISSING = {
    MissingSupport("gemm", "fp32", VENDOR),
    MissingSupport("gemm", "fp64", VENDOR),
    MissingSupport("conv2d", "fp32", VENDOR),
    MissingSupport("attention", "fp32", VENDOR),
    MissingSupport(COPY, "fp64", VENDOR),
}
OF_VECTORS = (TRIAD, COPY)


class ProductCounts(NamedTuple):
    """The counts of a product in a row, independent of the provider."""

    kernel: str
    direction: str
    shape: str
    of: str
    occurrences: int
    dtype: str
    operations: int
    nbytes: int


def _counted(product: Product | MeasuredKernel) -> ProductCounts:
    return ProductCounts(*(getattr(product, name) for name in ProductCounts._fields))


def _raw(subject: Subject) -> KernelsRaw:
    raw: KernelsRaw = subject.entry.raw
    return raw


def _requested(case: Case, rows: Sequence[MeasuredKernel]) -> list[ProductCounts]:
    """Every product of the input; of `auto` squares of the sizes in the rows."""
    products = requested(case)
    if automatic(case):
        more = squares(_sizes(rows), types_of_squares(case))
        products += [each for each in more if each not in products]
    return [_counted(product) for product in products]


def _sizes(rows: Sequence[MeasuredKernel]) -> list[int]:
    """Sides of the measured square products, in order."""
    found = (re.fullmatch(r"m(\d{1,6}) n\1 k\1", row.shape) for row in rows if row.of == SQUARE)
    return list(dict.fromkeys(int(size[1]) for size in found if size))


def _missing(raw: KernelsRaw) -> list[MissingSupport]:
    return [MissingSupport(each.kernel, each.dtype, each.provider) for each in raw.missing]


def _providers(raw: KernelsRaw, kernel: str) -> tuple[str, ...]:
    """The providers that a kernel must have, and others that the table names for it."""
    rows = [row for row in raw.rows if row.kernel == kernel]
    return providers_of([*rows, *(each for each in raw.missing if each.kernel == kernel)])


def _ceilings_of(subject: Subject) -> set[MissingSupport]:
    """Kernel, type and provider of all ceilings measured on CPUs, or on GPUs."""
    every = ceilings(subject.environment.accelerators > 0)
    return {MissingSupport(each.kernel, each.dtype, provider) for each in every for provider in each.providers}


def _once(subject: Subject) -> bool:
    rows = _raw(subject).rows
    return len({(_counted(row), row.provider) for row in rows}) == len(rows)


def _products(subject: Subject) -> bool:
    """Whether every product has a row by each provider that is not missing, and there are no other products.

    At least one provider supports it, except on CPUs for types that only GPUs compute.
    """
    raw, accelerated = _raw(subject), subject.environment.accelerators > 0
    wanted, missing = _requested(subject.case, raw.rows), _missing(raw)
    measured = {(_counted(row), row.provider) for row in raw.rows if row.of != CEILING}
    every = {(product, provider) for product in wanted for provider in _providers(raw, product.kernel)}
    lacking = {MissingSupport(product.kernel, product.dtype, provider) for product, provider in every - measured}
    possible = {product for product in wanted if accelerated or not DTYPES[product.dtype].on_gpus}
    return measured <= every and lacking <= {*missing} and {product for product, _ in measured} == possible


def _excused(subject: Subject) -> bool:
    """Whether each entry of `missing` names a provider once, without any rows of that kernel and type.

    An additional provider may lack some shapes only, as torch does for bytes.
    """
    raw = _raw(subject)
    missing, every = _missing(raw), _ceilings_of(subject)
    wanted = Counter(
        MissingSupport(product.kernel, product.dtype, provider)
        for product in _requested(subject.case, raw.rows)
        for provider in _providers(raw, product.kernel)
    )
    wanted.update(every)
    measured = Counter(MissingSupport(row.kernel, row.dtype, row.provider) for row in raw.rows)
    by_shape = {entry for entry in missing if entry == SHAPE_BY_SHAPE or entry.provider not in COMPARED}
    most = {entry: wanted[entry] - 1 if entry in by_shape else 0 for entry in missing}
    possible = not NEVER_MISSING.intersection(missing) and all(wanted[entry] for entry in missing)
    return len(missing) == len(most) and possible and all(measured[entry] <= most[entry] for entry in missing)


def _spot_checked(subject: Subject) -> bool:
    """Whether all rows have a number of spot checks, their residual and the time of the first call, or none has."""
    rows = _raw(subject).rows
    given = {value is not None for row in rows for value in (row.spot_checks, row.spot_residual, row.first_seconds)}
    return len(given) <= 1 and all(row.spot_checks is None or row.spot_checks >= LEAST_SPOT_CHECKS for row in rows)


def _timed_twice(subject: Subject) -> bool:
    """Whether all calls are timed by a second clock, or none: on GPUs and in older results."""
    given = {row.second_clock is not None for row in _raw(subject).rows}
    return given <= {False} if subject.environment.accelerators else len(given) <= 1


def _verified(subject: Subject) -> bool:
    return all(row.checked == _verification(row) for row in _raw(subject).rows)


def _verification(row: MeasuredKernel) -> str:
    return EVERY_ELEMENT if row.of == CEILING else verification(row.kernel, row.operations)


def _doubled(subject: Subject) -> bool:
    """Whether the automatic squares have no gap: each size doubles the one before."""
    if not automatic(subject.case):
        return True
    named = {product.layer.batch for product in requested(subject.case) if product.direction == PRODUCT}
    own = [size for size in _sizes(_raw(subject).rows) if size not in named]
    doubles = {SMALLEST_AUTOMATIC * 2**step for step in range(20)}
    smaller = (size // 2 for size in own if size > SMALLEST_AUTOMATIC)
    return set(own) <= doubles and all(size in own or size in named for size in smaller)


def _ceilings(subject: Subject) -> bool:
    """Whether each ceiling has a row by each provider that is not missing, with the counts of its shape."""
    raw, every = _raw(subject), _ceilings_of(subject)
    rows = [row for row in raw.rows if row.of == CEILING]
    measured = {MissingSupport(row.kernel, row.dtype, row.provider) for row in rows}
    whole = measured <= every and every - measured <= {*_missing(raw)}
    counted = all((row.operations, row.nbytes) == _of_shape(row) != (0, 0) for row in rows)
    vectors = {row.shape for row in rows if row.kernel in OF_VECTORS}
    plain = all((row.direction, row.occurrences) == (CEILING, 1) for row in rows)
    return whole and counted and len(vectors) <= 1 and plain


def _of_shape(row: MeasuredKernel) -> tuple[int, int]:
    """Operations and bytes of a ceiling's shape; (-1, -1) for any other text."""
    if row.kernel == FMA_PEAK and (found := re.fullmatch(r"sums(\d{1,12}) steps(\d{1,12})", row.shape)):
        sums = fma_peak.Shape(int(found[1]), int(found[2]))
        return fma_peak.operations(sums), fma_peak.nbytes(sums)
    if row.kernel in OF_VECTORS and (found := re.fullmatch(r"length(\d{1,12})", row.shape)):
        if row.kernel == TRIAD:
            return triad.operations(triad.Shape(int(found[1]))), triad.nbytes(triad.Shape(int(found[1])))
        return copy.operations(copy.Shape(int(found[1]))), copy.nbytes(copy.Shape(int(found[1])))
    return -1, -1


_ABSENT = {"kernel": "gemm", "dtype": "fp32", "provider": VENDOR, "why": "none"}

CLAIMS: Claims = (
    (
        *MEMORY,
        *TELEMETRY,
        *processor_claims("raw"),
        Claim(
            "ranks: those of the environment",
            lambda subject: _raw(subject).ranks == subject.environment.ranks,
            changed("raw.ranks", 3),
        ),
        Claim(
            "rows: threads of the table",
            lambda subject: all(row.threads == _raw(subject).threads for row in _raw(subject).rows),
            changed("raw.threads", 7),
        ),
        Claim(
            "rows: first calls timed and elements checked between calls, of all rows or, in older results, of none",
            _spot_checked,
            together(changed("raw.rows.*.spot_checks", 9), changed("raw.rows.0.spot_checks", None)),
        ),
        Claim(
            "rows: calls timed by a second clock on CPUs only",
            _timed_twice,
            together(changed("raw.rows.*.second_clock", 0.1), changed("raw.rows.0.second_clock", None)),
        ),
        Claim("rows: none twice", _once, repeated("raw.rows.-1")),
        Claim("missing: each provider once, of products that it may lack", _excused, appended("raw.missing", _ABSENT)),
        Claim(
            "rows: verified as the operations of the product ask for",
            _verified,
            changed("raw.rows.-1.checked", RANDOM_VECTORS),
        ),
        Claim(
            "rows: the products that SHAPES, PRECISION, BATCH and RESOLUTION ask for",
            _products,
            removed("raw.rows.-1"),
        ),
        Claim("rows: the ceilings, counted from their shapes", _ceilings, removed("raw.rows.0")),
        Claim(
            "rows: squares of auto of 512 and its doubles",
            _doubled,
            changed("raw.rows.-1.shape", "m1000 n1000 k1000"),
            AUTOMATIC,
        ),
    ),
)
STOPPED_CLAIMS: Claims = ()

"""The part of the schema that says what was measured of kernels, and what follows from it."""

from hpcai.kernels.layers import SPECS
from hpcai.kernels.spec import DIRECTIONS, DTYPES
from hpcai.kernels.verify import EVERY_ELEMENT, RANDOM_VECTORS
from hpcai.opcount.ceilings import COPY, FMA_PEAK, TRIAD
from hpcai.opcount.products import PRODUCT
from hpcai.report.schema.kinds import (
    COUNT,
    NAME,
    NUMBER,
    POSITIVE,
    TEXT,
    VERDICT,
    list_of,
    object_of,
    or_null,
)
from hpcai.result.kernels import CEILING, PEAKS_ON_GPUS

DTYPE = {"enum": list(DTYPES)}
PROVIDER = {"type": "string", "pattern": "^[a-z][a-z0-9_]*$"}  # its name in the file that declares it
KERNEL = {"enum": [*SPECS, FMA_PEAK, TRIAD, COPY]}
MEASURED = {
    "kernel": KERNEL,
    "direction": {"enum": [*DIRECTIONS, PRODUCT, CEILING]},
    "shape": NAME,
    "of": NAME,
    "occurrences": POSITIVE,
    "dtype": DTYPE,
    "threads": POSITIVE,
    "provider": PROVIDER,
    "variant": TEXT,
    "operations": COUNT,
    "nbytes": COUNT,
    "seconds": NUMBER,
    "residual": NUMBER,
    "checked": {"enum": [EVERY_ELEMENT, RANDOM_VECTORS]},
}
MISSING = object_of({"kernel": KERNEL, "dtype": DTYPE, "provider": PROVIDER, "why": NAME})
RAW = object_of(
    {"threads": POSITIVE, "ranks": POSITIVE, "missing": list_of(MISSING), "rows": list_of(object_of(MEASURED))}
)
ROW = object_of(
    {
        "test": POSITIVE,
        **MEASURED,
        "gflops": NUMBER,
        "intensity": or_null(NUMBER),
        "share": or_null(NUMBER),
        "ratio": or_null(NUMBER),
        "verdict": VERDICT,
    }
)
CEILINGS = object_of(
    dict.fromkeys(("fma_peak", "gemm", "convolution", "triad"), or_null(NUMBER)),
    dict.fromkeys((COPY, *PEAKS_ON_GPUS), or_null(NUMBER)),
)

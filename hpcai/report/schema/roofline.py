"""The part of the schema that says how a test lies under the roofline of its run."""

from hpcai.formulas import roofline
from hpcai.formulas.precision import PRECISIONS
from hpcai.report.schema.kinds import COUNT, NUMBER, POSITIVE, object_of, or_null
from hpcai.result.kernels import COMPARED
from hpcai.result.roofline import CEILINGS, PRODUCTS

BOUNDS = (roofline.COMPUTE, roofline.MEMORY, roofline.COMMUNICATION)
AGAINST = object_of(dict.fromkeys((*CEILINGS, *BOUNDS, "attainable"), or_null(NUMBER)))
FASTER = {**object_of(dict.fromkeys(COMPARED, COUNT)), "additionalProperties": COUNT}
COMPUTING = object_of(
    {"test": POSITIVE, "triad": or_null(NUMBER), "faster": object_of(dict.fromkeys(PRODUCTS, FASTER))},
    {"type": {"enum": sorted({row.product for row in PRECISIONS.values()} - {"fp32"})}},
)
ALL_REDUCE = object_of(
    {
        "test": POSITIVE,
        "scope": {"enum": ["group", "world"]},
        "by": {"enum": ["gloo", "nccl"]},
        "nbytes": POSITIVE,
        "bandwidth": NUMBER,
    }
)
ROOFLINE = object_of(
    {
        "rate": NUMBER,
        "intensity": object_of({roofline.MEMORY: NUMBER, roofline.COMMUNICATION: or_null(NUMBER)}),
        "ceilings": AGAINST,
        "shares": AGAINST,
        "binding": or_null({"enum": list(BOUNDS)}),
        "sources": object_of({"kernels": or_null(COMPUTING), "comm": or_null(ALL_REDUCE)}),
    }
)
GRADIENT_BANDWIDTH = object_of({"within": or_null(NUMBER), "between": or_null(NUMBER)})

"""A test under the roofline of its run: its share of each ceiling that was measured before it, and which binds.

Also the bandwidth that its gradients used (HPC AI500 V2; docs/METRICS.md, The roofline).
"""

from collections.abc import Sequence
from math import log
from typing import Any

from hpcai import networks
from hpcai.formulas import roofline
from hpcai.formulas.precision import PRECISIONS
from hpcai.inputfile import Case
from hpcai.kernels.spec import DTYPES
from hpcai.opcount import traffic
from hpcai.result import collectives, kernels

Json = dict[str, Any]

GRID = ("GROUPS", "DEGREE", "MAPPING")
PRODUCTS = ("gemm", "convolution")
CEILINGS = ("fma_peak", *PRODUCTS)  # of computing, in the order in which they are told
SOURCE = ("test", "triad", "faster")  # what is told of the table of kernels beside its ceilings
NOTHING: Json = {}


def under_roofline(case: Case, raw: Json, rate: float, tables: Sequence[Json]) -> Json:
    """Two members of a test's scores, from its raw measurements, its FLOPS and the tables measured before it."""
    graph = networks.for_data(case.settings, raw["dataset"]["shape"], raw["dataset"]["classes"])
    gradients = traffic.gradient_bytes(graph)
    step = traffic.step(graph, case["BATCH"], case["PRECISION"], bool(case["MOMENTUM"]))
    dtype = PRECISIONS[case["PRECISION"]].product
    reduced = _all_reduce(case, raw["backend"], gradients, tables)
    sources = {"kernels": _computing(tables, dtype), "comm": reduced}
    own = rate / (case["GROUPS"] * case["DEGREE"])
    return {
        "roofline": placed(own, step, roofline.moved_in_all_reduce(gradients, case["DEGREE"]), sources),
        "gradient_bandwidth": gradient_bandwidth(case, raw, gradients),
    }


def placed(rate: float, step: traffic.Traffic, moved: float, sources: Json) -> Json:
    """A rank's FLOP/s under its ceilings; `moved` are bytes all-reduced in a step, 0 where a rank trains alone."""
    computing, network = sources["kernels"] or NOTHING, sources["comm"] or NOTHING
    intensity = {"memory": step.intensity, "communication": step.operations / moved if moved else None}
    ceilings = {name: computing.get(name) for name in CEILINGS}
    bounds = {
        roofline.COMPUTE: roofline.combined(step.work(), ceilings),
        roofline.MEMORY: roofline.bound(computing.get("triad"), intensity["memory"]),
        roofline.COMMUNICATION: roofline.bound(network.get("bandwidth"), intensity["communication"]),
    }
    lowest, binding = roofline.attainable(bounds)
    told = {name: computing[name] for name in SOURCE} if computing else None
    if told and computing["type"] != "fp32":
        told["type"] = computing["type"]
    against = {**ceilings, **bounds, "attainable": lowest}
    return {
        "rate": rate,
        "intensity": intensity,
        "ceilings": against,
        "shares": {name: roofline.share(rate, ceiling) for name, ceiling in against.items()},
        "binding": binding,
        "sources": {"kernels": told, "comm": sources["comm"]},
    }


def _computing(tables: Sequence[Json], wanted: str) -> Json | None:
    """Ceilings of a rank in the last table of kernels, and how many products are whose in those of products.

    In the type that the test multiplies, where the table has it; else in fp32. That of int8 would be no ceiling.
    """
    table = next((table for table in reversed(tables) if table["workload"] == "kernels"), None)
    if table is None:
        return None
    rows = kernels.rows(_case(table), table["raw"])
    products = [row["dtype"] for row in kernels.passed(rows) if row["kernel"] in kernels.SUMMED.values()]
    dtype = wanted if wanted in products or DTYPES[wanted].exact else "fp32"
    whose = {name: faster(rows, name, dtype) for name in PRODUCTS}
    return {"test": table["index"], "type": dtype, **kernels.ceilings(rows, dtype), "faster": whose}


def faster(rows: Sequence[Json], ceiling: str, dtype: str = "fp32") -> dict[str, int]:
    """How many of the distinct products of a ceiling each provider computes faster."""
    own = [row for row in kernels.passed(rows) if (row["kernel"], row["dtype"]) == (kernels.SUMMED[ceiling], dtype)]
    providers = [row["provider"] for row in kernels.fastest(own)]
    return {provider: providers.count(provider) for provider in kernels.providers_of(own)}


def _all_reduce(case: Case, backend: str, gradients: int, tables: Sequence[Json]) -> Json | None:
    """The bus bandwidth of the all-reduce that trains: by its backend, over its ranks, nearest to its size.

    Of the group's own scope in the last table with the same grid; else of a world of as many ranks, which one group
    makes: of that table, else of the last one that has it.
    """
    comm = [table for table in reversed(tables) if table["workload"] == "comm"]
    own = [table for table in comm if all(table["settings"][key] == case[key] for key in GRID)]
    for scope, table in [*(("group", table) for table in own[:1]), *(("world", table) for table in [*own[:1], *comm])]:
        rows = collectives.rows(_case(table), table["raw"])
        same = [row for row in rows if (row["scope"], row["by"], row["ranks"]) == (scope, backend, case["DEGREE"])]
        sound = [row for row in same if row["collective"] == "all_reduce" and row["verdict"] == "PASSED"]
        if sound:
            return _source(min(sound, key=lambda row: (abs(log(row["nbytes"] / gradients)), row["nbytes"])))
    return None


def _source(row: Json) -> Json:
    return {**{name: row[name] for name in ("test", "scope", "by", "nbytes")}, "bandwidth": row["busbw"]}


def _case(table: Json) -> Case:
    return Case(table["index"], table["workload"], table["settings"])


def gradient_bandwidth(case: Case, raw: Json, gradients: int) -> Json:
    """Bytes per second that a rank sent to average gradients, by where its group's ranks lie; None where none does.

    Models have different numbers of steps under some samplers: the mean counts.
    """
    models, ranks = case["GROUPS"], case["DEGREE"]
    apart = raw.get("models_between_nodes", 0) if ranks > 1 else 0
    together = models - apart if ranks > 1 else 0
    rate = roofline.bandwidth(gradients, raw["steps"] / models, ranks, raw["phases"]["training"])
    return {"within": rate if together else None, "between": rate if apart else None}

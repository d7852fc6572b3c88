"""What a result says of its machine owes the input, the process grids, and the tests that ran there."""

from collections.abc import Iterator
from typing import Any

from hpcai.comm.grid_coordinates import LISTED_RANKS, described, grids_of, groups_of
from hpcai.inputfile import Case
from hpcai.report.consistency.telemetry import of_machine

Json = dict[str, Any]

CPU = "cpu"


def machine(result: Json, cases: list[Case]) -> Iterator[str]:
    """The claims that a result breaks by what it says of its ranks and nodes; none if all hold."""
    claims = {**_ranks(result, cases), **_devices(result)}
    yield from (claim for claim, holds in claims.items() if not holds)
    for index, test in enumerate(result["tests"]):
        if test["verdict"] == "PASSED":
            broken = (claim for claim, holds in _test(result, test["raw"]).items() if not holds)
            yield from (f"tests[{index}].raw: {claim}" for claim in broken)


def _ranks(result: Json, cases: list[Case]) -> dict[str, bool]:
    environment, ranks = result["environment"], result["ranks"]
    size, grids = environment["ranks"], grids_of(case.settings for case in cases)
    stated = {name: environment[name] for name in ("grids", "idle")}
    return {
        "environment: the grids of the tests, and their idle ranks": stated == described(grids, size),
        "environment: at most a node for each rank": 1 <= environment["nodes"] <= size,
        "ranks: each that is listed, in order": [rank["rank"] for rank in ranks] == [*range(min(LISTED_RANKS, size))],
        "ranks: groups, by the grids": all(rank["groups"] == groups_of(rank["rank"], grids) for rank in ranks),
        "ranks: threads > 0": all(rank["threads"] > 0 for rank in ranks),
    }


def _devices(result: Json) -> dict[str, bool]:
    """All ranks compute on GPUs, or none; a node has no more of them than ranks."""
    environment, ranks = result["environment"], result["ranks"]
    count = environment["accelerators"]
    return {
        "accelerators > 0 if, and only if, the device is no cpu": (count > 0) == (environment["device"] != CPU),
        "ranks: on the cpu if, and only if, accelerators = 0": all(
            (rank["device"] == CPU) == (count == 0) for rank in ranks
        ),
        "accelerators <= ranks of a node": count * environment["nodes"] <= environment["ranks"],
    }


def _test(result: Json, raw: Json) -> dict[str, bool]:
    environment, slowest = result["environment"], raw.get("busy_seconds")
    gpus, probe, nodes = environment["accelerators"] > 0, raw.get("probe"), environment["nodes"]
    hosts = {rank["rank"]: rank["host"] for rank in result["ranks"]}
    return {
        "memory: accelerated if, and only if, there are GPUs": raw["memory"]["accelerated"] == gpus,
        "backend: nccl with GPUs only": raw["backend"] != "nccl" or gpus,
        "slowest_host: of slowest_rank": slowest is None
        or hosts.get(slowest["slowest_rank"], slowest["slowest_host"]) == slowest["slowest_host"],
        "staging: on nodes of the job": "staging" not in raw or raw["staging"]["nodes"] <= nodes,
        "models_between_nodes: with several nodes only": "models_between_nodes" not in raw or nodes > 1,
        "probe: on one node, converted on all ranks or on none": probe is None
        or nodes > 1
        or probe["converted"] == raw["memory"].get("converted"),
        **of_machine(raw, environment),
    }

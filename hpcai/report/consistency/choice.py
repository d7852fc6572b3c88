"""What a choice of kernels owes the network, its own timings, and the phases."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from hpcai import networks
from hpcai.inputfile import Case
from hpcai.networks.execution_plan import batch_norm_site, execution_plan, fused_groups
from hpcai.networks.graph import Graph
from hpcai.networks.layers import BatchNorm
from hpcai.opcount.products import layers_of
from hpcai.result import choice as rule

Json = dict[str, Any]


def choice(case: Case, raw: Json) -> dict[str, bool]:
    found, phase = raw.get("choice"), raw["phases"].get("choice")
    wanted = case["KERNELS"] == rule.AUTO
    claims = {"choice if, and only if, KERNELS is auto": (found is not None) == (phase is not None) == wanted}
    if not found or phase is None:
        return claims
    graph = networks.for_data(case.settings, raw["dataset"]["shape"], raw["dataset"]["classes"])
    return {**claims, **_layers(case, graph, found), **_chosen(found), **_seconds(found, phase)}


def _layers(case: Case, graph: Graph, found: Json) -> dict[str, bool]:
    batch = case["BATCH"]
    products = Counter(
        {
            (each["kernel"], each["shape"], rule.GRADIENTS[0] in each["backward"]): each["layers"]
            for each in found["products"]
        }
    )
    norms = {each["shape"]: each["layers"] for each in found["normalisations"]}
    return {
        "choice: the products of the network": products == layers_of(graph, batch)
        and len(products) == len(found["products"]),
        "choice: batch norms of the network": norms.items() <= _norms(graph, batch).items(),
    }


def _norms(graph: Graph, batch: int) -> Mapping[str, int]:
    """How many batch norms a network has of each shape, with what is computed at once with them."""
    groups = (group for group in fused_groups(execution_plan(graph)) if isinstance(group[0].layer.op, BatchNorm))
    return Counter(batch_norm_site(group, (batch, *graph.shapes[group[0].layer.inputs[0]])) for group in groups)


def _chosen(found: Json) -> dict[str, bool]:
    products, norms = found["products"], found["normalisations"]
    some = any(each["ours"] for each in [*products, *norms])
    return {
        "choice: what the timings say": all(_by_name(each) and rule.chosen(each) == each["ours"] for each in products)
        and all(rule.normalised(each) == each["ours"] for each in norms),
        "choice: a whole step where something is ours": (found["whole"] is not None) == some,
    }


def _by_name(entry: Json) -> bool:
    """Whether the backward pass was timed with one gradient ours, by its name, only where there are two."""
    return not set(rule.GRADIENTS) & entry["backward"].keys() or set(rule.GRADIENTS) <= entry["backward"].keys()


def _seconds(found: Json, phase: float) -> dict[str, bool]:
    passes = [each for entry in found["products"] for kind in ("forward", "backward") for each in entry[kind].values()]
    norms = [entry[by] for entry in found["normalisations"] for by in (rule.VENDOR, rule.CUSTOM)]
    whole = list((found["whole"] or {}).values())
    longest = max(
        entry["layers"] * min(entry[kind].values()) for entry in found["products"] for kind in ("forward", "backward")
    )
    return {
        "choice: seconds > 0": min([*passes, *norms, *whole]) > 0,
        "choice: within its phase": found["rounds"] * longest <= phase and 2 * max(whole, default=0.0) <= phase,
    }

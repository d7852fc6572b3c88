"""The checks of a test: what was measured, held against its limit; PASSED, FAILED or NOT CHECKED."""

from typing import Any

from hpcai import networks
from hpcai.formulas import score
from hpcai.formulas.precision import PRECISIONS
from hpcai.inputfile import Case
from hpcai.result import beside, quality

Json = dict[str, Any]

RESIDUAL = "||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)"
ELEMENTWISE = (
    "max|C-L*R|/(8*sqrt(N)*u*sqrt((LoL)*(RoR)))",
    "max|C-LR|/(8*sqrt(N)*u*sqrt((LoL)(RoR))+v*|LR|)",  # of results that are stored in 16 bits
)
WRONG = "forward products of int8: wrong elements"

TERM_LOST = 0.25  # of a term of the update: half of one rank's gradient is found, as is a zeroed layer

CEILING = "quality above the ceiling: standard errors"
MOST_ABOVE = 5  # standard errors


def checks(case: Case, raw: Json, operations: Json) -> list[Json]:
    claimed = operations["credited"] + operations["skipped"]
    unproven = abs(claimed - operations["executed"]) / operations["per_sample"]
    found = [
        at_most(RESIDUAL, raw["residuals"]["scaled"]["value"], case["RESIDUAL"]),
        at_most(ELEMENTWISE[PRECISIONS[case["PRECISION"]].rounded], raw["residuals"]["elementwise"]["value"], 1),
        *exact(raw),
        *beside_the_vendor(case, raw),
        at_most("all-reduce of integers: wrong elements", raw["wrong_sums"], 0),
        at_most("parameters and statistics: differing ranks", raw["differing_ranks"], 0),
        *audited(raw["audit"], "models"),
        at_most("loss not finite: models", raw["diverged_models"], 0),
        at_most("operations credited, not executed: samples", unproven, 0),
        at_most("validation samples not judged exactly once", raw["validation_miscounted"], 0),
        leak(raw["dataset"], quality.best(case, raw), quality.judged(raw)),
    ]
    if case["GROUPS"] > 1:
        apart = quality.disagreement(case, raw)
        verdict = "PASSED" if apart > 0 else "FAILED"
        found.append({"name": "pairwise disagreement of models, not 0", "value": apart, "limit": 0, "verdict": verdict})
    return found


def exact(raw: Json) -> list[Json]:
    """Whether sums of whole numbers are those, where products are made of bytes."""
    return [at_most(WRONG, raw["residuals"]["wrong"]["value"], 0)] if "wrong" in raw["residuals"] else []


def beside_the_vendor(case: Case, raw: Json) -> list[Json]:
    """Whether our kernels learn what the vendor's do, where ours train."""
    found = raw.get("beside")
    if not found:
        return []
    data, statistics = raw["dataset"], found["statistics"]
    graph = networks.for_data(case.settings, data["shape"], data["classes"])
    pixels = beside.pixels(case, graph, statistics["where"])
    return [
        at_most(beside.LOSS, beside.loss_share(found), 1),
        at_most(beside.GRADIENT, beside.gradient_share(found["gradient"], case["PRECISION"]), 1),
        at_most(beside.STATISTICS, beside.statistics_share(statistics, pixels), 1),
    ]


def audited(audit: Json, whose: str) -> list[Json]:
    """What the repeated steps and the sums over the bits of all weights have found, of models or trials."""
    return [
        at_most(f"training samples not those of the epoch: {whose}", audit["wrong_epochs"], 0),
        at_most("audited steps: worst deviation of the update", audit["deviation"]["value"], 1),
        at_most("audited steps: largest share of a term lost", audit["lost"]["value"], TERM_LOST),
        at_most("weights changed outside of steps: ranks", audit["changed_ranks"], 0),
    ]


def leak(dataset: Json, reached: float, judged: int) -> Json:
    """Nobody is better than the ceiling allows but by chance: who is has seen the labels.

    `reached`: the highest quality, a share of so many that were `judged`.
    """
    ceiling = dataset.get("ceiling")
    if ceiling is None:
        return {"name": CEILING, "value": None, "limit": MOST_ABOVE, "verdict": "NOT CHECKED"}
    return at_most(CEILING, score.above_ceiling(reached, ceiling, dataset["ceiling_error"], judged), MOST_ABOVE)


def at_most(name: str, value: float, limit: float) -> Json:
    """A check that is PASSED if its value does not exceed its limit; a NaN never passes."""
    return {"name": name, "value": value, "limit": limit, "verdict": "PASSED" if value <= limit else "FAILED"}

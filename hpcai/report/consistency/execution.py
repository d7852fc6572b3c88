"""What the way a network was executed owes the input: the KEY COMPILE, and the ranks that share a model."""

from typing import Any

from hpcai.inputfile import Case
from hpcai.report.consistency.rounding import at_most

Json = dict[str, Any]

WAYS = {"off": ["layer by layer"], "torch": ["torch.compile"], "graphs": ["CUDA graphs", "layer by layer"]}


def execution(case: Case, raw: Json) -> dict[str, bool]:
    found, phases = raw["execution"], raw["phases"]
    asked = str(case.settings.get("COMPILE", "off"))
    compiled, trials = asked != "off", found["trials"]
    return {
        "execution: by what COMPILE allows": found["by"] in WAYS[asked],
        "execution: graphs if, and only if, COMPILE is on": (found["graphs"] > 0) == compiled,
        "execution: time to compile if, and only if, COMPILE is on": (found["compile_seconds"] > 0) == compiled,
        "execution: compiled within phase warm-up": at_most(found["compile_seconds"], phases["warm-up"]),
        "execution: tried if, and only if, COMPILE is graphs": sorted(trials)
        == (sorted(WAYS["graphs"]) if asked == "graphs" else []),
        "execution: the fastest that was tried": not trials or trials.get(found["by"]) == min(trials.values()),
        "buckets if, and only if, DEGREE > 1": (found["buckets"] > 0) == (case["DEGREE"] > 1),
    }

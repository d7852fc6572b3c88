"""Searches on real ranks, of networks and pictures that are as small as can be."""

import json
import tempfile
from pathlib import Path
from typing import Any

from hpcai.result.nas import judge

from hpcai.inputfile import Case, parse

Json = dict[str, Any]
SETTINGS = {
    "DATASET": "generated",
    "NETWORK": "resnet8",
    "RESOLUTION": 8,
    "CLASSES": 4,
    "SAMPLES": 48,
    "GROUPS": 2,
    "DEGREE": 1,
    "BATCH": 8,
    "EPOCHS": 4,
    "LEARNRATE": 0.5,
    "DURATION": 0,
    "ROUNDS": 3,
}
TIMES = ("given", "started", "returned", "training_seconds", "validation_seconds", "warmup_seconds")
OF_PROCESS = ("nbytes", "planned_bytes")
MEMORY = {
    "peak_bytes": 2,
    "baseline_bytes": 1,
    "device_peak_bytes": 0,
    "planned_bytes": 2,
    "whole_run": False,
    "data_bytes": 0,
    "samples": 48,
    "picture_bytes": 64,
    "converted": False,
    "accelerated": False,
}


def search_case(**settings: Any) -> Case:
    """A case of `[nas]`; what is not given is small."""
    lines = [f"{value} {key}" for key, value in (SETTINGS | settings).items()]
    (case,) = parse("\n".join(["first", "second", "[nas]", *lines]).encode(), (), None).cases(16)
    return case


def searched(**settings: Any) -> Json:
    """The raw measurement of a search on all ranks there are, as rank 0 has it; `{}` on idle ranks. Collective."""
    import torch
    from test_workload_kernels import ranks

    from hpcai.workloads.nas import measure

    case = search_case(**settings)
    with ranks() as (world, shutdown), tempfile.TemporaryDirectory() as own:
        folder = world.comm.bcast(own)
        raw = measure.run(case, case["SEED"], world, torch.device("cpu"), lambda *words: None, shutdown, folder)
        if world.rank == 0:
            place = Path(folder, "search-1")
            raw["history"] = [json.loads(line) for line in (place / "history.jsonl").read_text().splitlines()]
            raw["kept"] = sorted(path.name for path in place.glob("*.pt"))
        world.comm.Barrier()
    return raw or {}


def judged(raw: Json, **settings: Any) -> Json:
    """The test as it stands in a result, on rank 0."""
    return judge(search_case(**settings), {**raw, "memory": MEMORY}, [])


def verdicts(test: Json) -> dict[str, str]:
    """Of each check, by its name."""
    return {check["name"]: check["verdict"] for check in test["checks"]}


def repeatable(trials: list[Json]) -> list[Json]:
    """Trials without what depends on time, or on the process."""
    return [
        {name: value for name, value in trial.items() if name not in (*TIMES, *OF_PROCESS, "curve")}
        | {"curve": [{name: value for name, value in entry.items() if name != "seconds"} for entry in trial["curve"]]}
        for trial in trials
    ]

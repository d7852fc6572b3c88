"""Searches on real ranks, of networks and images as small as possible."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sample_records import environment

from hpcai.inputfile import Case, parse
from hpcai.record.machine import DataFacts, Memory
from hpcai.record.plain import plain
from hpcai.record.trial import Trial
from hpcai.results.assembly import with_claims
from hpcai.results.measured import Before, Measured
from hpcai.workloads.nas.checks import build
from hpcai.workloads.nas.record import SearchRaw, SearchRow

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


@dataclass(frozen=True)
class SearchRun:
    """A search on this rank: its measurements, None on idle ranks; only on rank 0 its journal, and its weights."""

    case: Case
    measured: SearchRaw | None
    history: Sequence[Trial] = ()
    weights: Sequence[str] = ()

    @property
    def raw(self) -> SearchRaw:
        """The measurements; not for idle ranks."""
        assert self.measured is not None
        return self.measured

    @property
    def trials(self) -> Sequence[Trial]:
        """The trials, on rank 0."""
        return self.raw.trials

    @property
    def entry(self) -> SearchRow:
        """The test's entry in a result, on rank 0; FAILED also where a claim about searches is violated."""
        samples = self.case["SAMPLES"]
        data = DataFacts(data_bytes=0, samples=samples, image_bytes=64, converted=False)
        memory = Memory(
            peak_bytes=2,
            baseline_bytes=1,
            device_peak_bytes=0,
            planned_bytes=2,
            whole_run=False,
            accelerated=False,
            data=data,
        )
        entry = with_claims(self.case, build(self.case, Measured(self.raw, memory), Before()), environment())
        assert isinstance(entry, SearchRow)
        return entry


def search_case(**settings: Any) -> Case:
    """A case of `[nas]`; settings that are not given are small."""
    lines = [f"{value} {key}" for key, value in (SETTINGS | settings).items()]
    (case,) = parse("\n".join(["first", "second", "[nas]", *lines]).encode(), (), None).cases(16)
    return case


def searched(**settings: Any) -> SearchRun:
    """A search on all ranks. Collective."""
    import torch
    from test_workload_kernels import ranks

    from hpcai.search import journal
    from hpcai.workloads.nas import measure

    case = search_case(**settings)
    with ranks() as (world, shutdown), tempfile.TemporaryDirectory() as own:
        folder = world.comm.bcast(own)
        raw = measure.run(case, world, torch.device("cpu"), lambda *words: None, shutdown, folder)
        assert raw is None or isinstance(raw, SearchRaw)
        run = SearchRun(case, raw)
        if world.rank == 0:
            place = Path(folder, "search-1")
            weights = sorted(path.name for path in place.glob("*.safetensors"))
            run = SearchRun(case, raw, journal.read(place / "history.jsonl"), weights)
        world.comm.Barrier()
    return run


def verdicts(entry: SearchRow) -> dict[str, str]:
    """The verdict of each check, by its name."""
    return {check.name: check.verdict for check in entry.checks}


def repeatable(trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """Trials as JSON without the fields that depend on time, or on the process."""
    return [
        {name: value for name, value in trial.items() if name not in (*TIMES, *OF_PROCESS, "curve")}
        | {"curve": [{name: value for name, value in entry.items() if name != "seconds"} for entry in trial["curve"]]}
        for trial in map(plain, trials)
    ]

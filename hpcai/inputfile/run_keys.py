"""The KEYs of a run, which stand before the first section of the input."""

from typing import Any

from hpcai.inputfile.key import Key, Kind

UNNAMED = "unnamed"  # SYSTEM of runs that name none


def _of_run(name: str, kind: Kind, help: str, **rest: Any) -> Key:
    return Key(name=name, kind=kind, help=help, sweep=False, **rest)


RUN_KEYS = (
    _of_run("OUTPUT", "folder", "name of the result folder", default="hpcai"),
    _of_run("SYSTEM", "text", "name of the system in report, result.csv and lists", default=UNNAMED),
    _of_run(
        "LEVEL",
        "choice",
        "what may differ from the reference (docs/RULES.md)",
        choices=("hardware", "system", "free"),
        default="free",
    ),
    _of_run("SEED", "integer", "master seed", low=0, high=2**63 - 1, default=1),
    _of_run("RESIDUAL", "real", "limit of scaled residuals", low=0, high=1000, bounds="(]", default=16.0),
    _of_run("REPEAT", "integer", "runs of each test", low=1, high=1000, default=1),
    _of_run(
        "TIMELIMIT",
        "limit",
        "seconds until the run stops after a step and writes what was measured; job: until just before its job ends",
        choices=("job",),
        low=0,
        bounds="(]",
        zero="none",
        default=0.0,
    ),
    _of_run(
        "WATCHDOG",
        "real",
        "seconds without a step after which a stuck rank ends the run, but at least 10 times the slowest step",
        low=1,
        high=86400,
        zero="never",
        default=300.0,
    ),
    _of_run(
        "TELEMETRY",
        "real",
        "seconds between samples of processors, memory and GPUs, or a 100th of the test if that is less",
        low=0.25,
        high=3600,
        zero="none",
        default=30.0,
    ),
    _of_run(
        "ENERGY",
        "power",
        "energy of the timed region: of the first counter that answers, or by watts of a node, or by a meter's file",
        choices=("auto", "none", "meter:PATH"),
        low=1,
        high=1_000_000,
        default="auto",
    ),
    _of_run("MLLOG", "choice", "MLPerf logs of the models (docs/FORMATS.md)", choices=("off", "on"), default="off"),
    _of_run(
        "CHECKPOINT",
        "real",
        "seconds between checkpoints of each model, from which `--resume` goes on",
        low=0,
        bounds="(]",
        zero="none",
        default=600.0,
    ),
)

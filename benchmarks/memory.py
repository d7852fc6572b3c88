"""Is what `--plan` says of memory true? Each problem is planned, then run, and the two are compared.

    python benchmarks/memory.py [all] [modes]

(estimate - baseline) / (peak - baseline) must lie in 1 to 1.25 for the shipped input and for resnet50 at 224 x 224 with
batches of 8, else the exit code is 1; with `all`, other problems are tried besides, and told of; with `modes`, those of
PARALLEL. Baselines are those that `--plan` prints; the peak is that of the rank that used most. Large pictures are few
random ones, made here.
"""

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
MIB = 2**20
MOST = 1.25
FEW = "FEW"  # stands for the folder of few pictures
ENSEMBLE = "one\ntwo\n[ensemble]\nfashion:pictures DATASET\n32 SAMPLES\n1 GROUPS\n1 EPOCHS\n0 WARMUP\n"


class Trial(NamedTuple):
    """A problem: ranks, changes of the shipped input or of `text`, and whether its ratio is bounded."""

    name: str
    ranks: int
    changes: tuple[str, ...]
    bounded: bool = False
    text: str = ""


LARGE = (f"DATASET=fashion:{FEW}", "RESOLUTION=224", "GROUPS=1", "EPOCHS=1", "WARMUP=0", "LEARNRATE=0.01")
TRIALS = (
    Trial("shipped input", 2, (), True),
    Trial("resnet50, 224 x 224, batch 8", 1, (*LARGE, "DEGREE=1", "NETWORK=resnet50", "BATCH=8"), True),
)
SMALL = ("GROUPS=1", "DEGREE=1", "NETWORK=resnet20", "SAMPLES=512", "EPOCHS=1")
MORE = (
    Trial("resnet20, batch 128", 1, (*SMALL, "BATCH=128")),
    Trial("resnet18, 224 x 224, batch 16", 1, (*LARGE, "DEGREE=1", "NETWORK=resnet18", "BATCH=16")),
    Trial("resnet18, 112 x 112, Q = 2", 2, (*LARGE, "RESOLUTION=112", "DEGREE=2", "NETWORK=resnet18", "BATCH=8")),
    Trial("resnet20 in bf16", 1, (*SMALL, "PRECISION=bf16")),
)
# Parallel modes: of a network whose weights and optimiser's state need most of the memory, and of activations.
WEIGHTS = ("NETWORK=resnet34", "RESOLUTION=16", "BATCH=4", "OPTIMISER=adam", "LEARNRATE=0.001")
ACTIVATIONS = ("NETWORK=resnet20", "RESOLUTION=112", "BATCH=8", "LEARNRATE=0.01")
SPLITS = (
    ("data", 2, ()),
    ("tensor", 2, ("PARALLEL=tensor",)),
    ("pipeline", 2, ("PARALLEL=pipeline",)),
    ("pipeline", 3, ("PARALLEL=pipeline",)),
    ("2x1x2", 4, ("PARALLEL=mixed", "SPLIT=2x1x2")),
    ("1x2x2", 4, ("PARALLEL=mixed", "SPLIT=1x2x2")),
)
MODES = tuple(
    Trial(f"{name}, {mode}, Q = {ranks}", ranks, (*network, *split, f"DEGREE={ranks}"), text=ENSEMBLE)
    for name, network in (("weights", WEIGHTS), ("activations", ACTIVATIONS))
    for mode, ranks, split in SPLITS
)


def main(arguments: Sequence[str]) -> int:
    """The exit code: 1 if a bound is broken."""
    print(f"{platform.processor() or platform.machine()}, {platform.platform()}, Python {platform.python_version()}")
    print(f"{'problem':<32} {'test':>4} {'baseline':>9} {'estimate':>9} {'peak':>9}  ratio   (MiB of a rank)")
    with tempfile.TemporaryDirectory() as folder:
        pictures(Path(folder))
        trials = TRIALS + (MORE if "all" in arguments else ()) + (MODES if "modes" in arguments else ())
        broken = [trial.name for trial in trials if not _holds(trial, Path(folder)) and trial.bounded]
    print(f"out of bounds: {', '.join(broken)}" if broken else "all bounds hold")
    return 1 if broken else 0


def _holds(trial: Trial, folder: Path) -> bool:
    holds = True
    for index, (baseline, estimate, peak) in enumerate(compared(trial, folder), start=1):
        ratio = (estimate - baseline) / (peak - baseline)
        holds &= 1 <= ratio <= MOST
        columns = " ".join(f"{nbytes / MIB:>9.1f}" for nbytes in (baseline, estimate, peak))
        print(f"{trial.name:<32} {index:>4} {columns}  {ratio:.3f}", flush=True)
    return holds


def compared(trial: Trial, folder: Path) -> Iterator[tuple[float, float, float]]:
    """Bytes of each test: the baseline and the estimate that `--plan` prints, and the peak of a run in `folder`."""
    ranks, file = trial.ranks, folder / "input.dat"
    file.write_text(trial.text or (ROOT / "input.dat").read_text("utf-8"), "utf-8")
    options = [f"--set={change.replace(FEW, str(folder / 'pictures'))}" for change in trial.changes]
    check = _bench(["--plan", "--ranks", str(ranks), *options], folder)
    mpirun = Path(sys.executable).with_name("mpirun")
    launcher = [str(mpirun) if mpirun.exists() else "mpirun", "-np", str(ranks)]
    told = _bench(options, folder, launcher).rsplit(" are in ", 1)[1].strip()
    tests: list[dict[str, Any]] = json.loads((folder / told / "result.json").read_text("utf-8"))["tests"]
    for test in tests:
        yield *planned(check, test["index"]), test["memory"]["peak_bytes"]


def planned(check: str, index: int) -> tuple[float, float]:
    """Baseline and estimate of a test in what `--plan` prints, in bytes."""
    for block in check.split("Memory of a rank in MiB, test ")[1:]:
        if str(index) in re.findall(r"\d+", block.split(":", 1)[0]):
            baseline, whole = (re.search(rf"([\d.]+)  {name}:", block) for name in ("baseline", "in all"))
            assert baseline and whole
            return float(baseline[1]) * MIB, float(whole[1]) * MIB
    raise ValueError(f"no plan of test {index}")


def _bench(options: Sequence[str], folder: Path, launcher: Sequence[str] = ()) -> str:
    command = [*launcher, sys.executable, str(ROOT / "bench.py"), "input.dat", *options]
    done = subprocess.run(command, cwd=folder, env=os.environ, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout + done.stderr


def pictures(folder: Path, training: int = 48, validation: int = 16) -> None:
    """Four IDX files of random pictures below `folder`."""
    generator = np.random.default_rng(1)
    (folder / "pictures").mkdir()
    for name, samples in (("train", training), ("t10k", validation)):
        for kind, size in (("images-idx3", (samples, 28, 28)), ("labels-idx1", (samples,))):
            values = generator.integers(0, 256 if len(size) == 3 else 10, size, np.uint8)
            header = bytes([0, 0, 8, len(size)]) + np.array(size, ">u4").tobytes()
            (folder / "pictures" / f"{name}-{kind}-ubyte").write_bytes(header + values.tobytes())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""All that a machine without a GPU cannot show, in one go; `make gpu-check` runs it.

    python benchmarks/gpu_check.py [STAGE ...] [--to FOLDER]

Stages: `tests`, those that need a GPU; `sanitizer`, small products under compute-sanitizer where it is installed;
`speed`, our kernels against the vendor's; `training`, inputs/gpu.dat by mpirun with a rank for every GPU: collectives,
then a ResNet-50 by NCCL. What was found goes to docs/measurements/<device>-<date>.json, and a table to the .md beside
it, after every stage: one that is broken off leaves those before it.
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

NVIDIA = ("nvidia-cuda-nvrtc", "nvidia-cublas", "nvidia-cudnn-cu13", "nvidia-nccl-cu13")
PACKAGES = ("torch", "cupy-cuda13x", "numpy", "numba", "mpi4py", *NVIDIA)
OUTCOMES = r"(\d+) (passed|failed|skipped|errors?)"
TOOLS = ("memcheck", "racecheck", "synccheck")
TAIL = 40  # lines of what a program said, where it failed
Json = dict[str, Any]


def machine() -> Json:
    """The device, its driver, and the software."""
    import torch

    properties = torch.cuda.get_device_properties(0)
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    found = subprocess.run(query, capture_output=True, text=True, check=False) if shutil.which(query[0]) else None
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return {
        "device": properties.name,
        "devices": torch.cuda.device_count(),
        "capability": f"{properties.major}.{properties.minor}",
        "multiprocessors": properties.multi_processor_count,
        "memory_bytes": properties.total_memory,
        "driver": found.stdout.split()[0] if found and found.stdout.strip() else "unknown",
        "python": platform.python_version(),
        "packages": dict(_versions()),
        "commit": commit.stdout.strip() or "unknown",
    }


def _versions() -> Iterator[tuple[str, str]]:
    for name in PACKAGES:
        try:
            yield name, metadata.version(name)
        except metadata.PackageNotFoundError:
            yield name, "absent"


def ran(*command: str | Path, **environment: str) -> Json:
    """A program of this checkout, with this Python: whether it ended well, in which time, and what it said last."""
    begin = time.time()
    done = subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    print("\n".join(lines[-TAIL:]), flush=True)
    return {"passed": done.returncode == 0, "seconds": round(time.time() - begin, 1), "said": lines}


def tests() -> Json:
    """The tests that a machine without a GPU skips, and how many there were of each outcome."""
    found = ran(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "gpu")
    counts = {word: int(number) for number, word in re.findall(OUTCOMES, "".join(found["said"][-1:]))}
    return {**found, **counts, "said": found["said"][-TAIL:], "passed": found["passed"] and counts.get("passed", 0) > 0}


def sanitizer() -> Json:
    """Each tool over one odd shape of every kernel, type and direction."""
    program = shutil.which("compute-sanitizer")
    if program is None:
        return {"passed": True, "absent": "compute-sanitizer is not installed"}
    watched = (sys.executable, "benchmarks/gpu_speed.py", "--small", "--rounds", "1")
    found = {tool: ran(program, "--tool", tool, "--error-exitcode", "9", *watched) for tool in TOOLS}
    for each in found.values():
        each["said"] = each["said"][-TAIL:]
    return {"passed": all(each["passed"] for each in found.values()), **found}


def speed() -> Json:
    """Ratios of the vendor's times to ours; a wrong result is a failure, a slow one is not."""
    rows = ROOT / "results" / "gpu-speed.json"
    rows.parent.mkdir(exist_ok=True)
    rows.unlink(missing_ok=True)
    found = ran(sys.executable, "benchmarks/gpu_speed.py", "--json", rows)
    return {**found, "rows": json.loads(rows.read_text()) if rows.exists() else []}


def training() -> Json:
    """The result file of inputs/gpu.dat, by as many ranks as there are GPUs."""
    import torch

    mpirun = Path(sys.executable).with_name("mpirun")
    launcher = mpirun if mpirun.exists() else shutil.which("mpirun")
    if launcher is None:
        return {"passed": False, "said": ["there is no mpirun beside this Python or on the PATH"]}
    before = set(ROOT.glob("results/gpu-*/result.json"))
    found = ran(launcher, "-np", str(torch.cuda.device_count()), sys.executable, "bench.py", "inputs/gpu.dat")
    results = sorted(set(ROOT.glob("results/gpu-*/result.json")) - before)
    return {**found, "result": json.loads(results[-1].read_text()) if results else None}


STAGES: dict[str, Callable[[], Json]] = {
    "tests": tests,
    "sanitizer": sanitizer,
    "speed": speed,
    "training": training,
}


def table(found: Json) -> str:
    """What a reader wants to see first, in Markdown; programs' own tables as they are."""
    about = found["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in about["packages"].items() if version != "absent")
    lines = [f"# {about['device']}, {found['date']}", ""]
    lines += [f"{about['devices']} of it, driver {about['driver']}, Python {about['python']}, {packages}.", ""]
    lines += [f"Commit {about['commit']}. Made by `make gpu-check`; the whole is in the JSON file beside this one.", ""]
    for name, stage in found["stages"].items():
        lines += [f"## {name}: {'passed' if stage['passed'] else 'FAILED'}", ""]
        said = stage.get("said") or [stage.get("absent", "")]
        lines += ["```text", *(line.rstrip() for line in said), "```", ""]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=f"{', '.join(STAGES)}; all of them if none is named")
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "measurements")
    options = parser.parse_args()
    if unknown := [stage for stage in options.stages if stage not in STAGES]:
        parser.error(f"no stage {', '.join(unknown)}; allowed: {', '.join(STAGES)}")
    import torch

    if not torch.cuda.is_available():
        sys.exit("NO GPU: nothing was checked")
    about, date = machine(), time.strftime("%Y-%m-%d")
    found: Json = {"date": date, "machine": about, "stages": {}}
    name = f"{re.sub('[^a-z0-9]+', '-', about['device'].lower()).strip('-')}-{date}"
    for stage in options.stages or STAGES:
        print(f"== {stage}", flush=True)
        found["stages"][stage] = STAGES[stage]()
        (options.to / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
        (options.to / f"{name}.md").write_text(table(found))
    failed = [stage for stage, what in found["stages"].items() if not what["passed"]]
    print(f"gpu-check: {'FAILED: ' + ', '.join(failed) if failed else 'all passed'}; {options.to / name}.json, .md")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

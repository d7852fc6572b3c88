"""Each optimiser trains detectors and the networks of a search, in the real program."""

import json
from pathlib import Path

import pytest
from launch import BENCH, mpirun, run_job

from hpcai.inputfile.keys import keys_by_name

OPTIMISERS = keys_by_name()["OPTIMISER"].choices
INPUT = f"""\
Optimisers of detectors and of searches
One model on two ranks
[weather]
generated         DATASET
48                RESOLUTION
2                 CLASSES
16                SAMPLES
1                 GROUPS
2                 DEGREE
4                 BATCH
1                 EPOCHS
0                 WARMUP
0.01              DECAY
{" ".join(OPTIMISERS)} OPTIMISER
[nas]
fashion           DATASET
8                 RESOLUTION
200               SAMPLES
1                 GROUPS
2                 DEGREE
16                BATCH
1                 EPOCHS
0.02              LEARNRATE
none              SCALING
0.01              DECAY
{" ".join(OPTIMISERS)} OPTIMISER
30                DURATION
2                 TRIALS
"""


@pytest.mark.exhaustive
@pytest.mark.skipif(mpirun() is None, reason="NO mpirun: NO DETECTOR TRAINED BY EACH OPTIMISER")
def test_each_optimiser_passes_in_weather_and_in_searches(tmp_path: Path) -> None:
    (tmp_path / "input.dat").write_text(INPUT)
    job = run_job([BENCH], 2, tmp_path, timeout=300)
    assert job.returncode == 0, job.stdout + job.stderr
    (made,) = (tmp_path / "results").iterdir()
    tests = json.loads((made / "result.json").read_text())["tests"]
    used = [(test["workload"], test["settings"]["OPTIMISER"]) for test in tests]
    assert used == [(workload, name) for workload in ("weather", "nas") for name in OPTIMISERS]
    assert [test["verdict"] for test in tests] == ["PASSED"] * len(tests)
    assert all(test["raw"]["replay"]["steps"] > 0 for test in tests if test["workload"] == "weather")
    assert all(test["raw"]["sent"]["bytes"]["group"] > 0 for test in tests)
    assert run_job([BENCH, "--verify", made], None, tmp_path).returncode == 0

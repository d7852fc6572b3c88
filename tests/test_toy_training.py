"""A workload that trains, in a folder of its own (tests/toy_training), whose quality is an error: smaller is better.

It shares stages, scores, checks and claims with [ensemble]: all of them must honour the direction.
"""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from small_run import Json, renewed
from toy_runs import results_of, with_workload

from hpcai.results.alterations import changed

INPUT = """\
Errors
Two models
errors     OUTPUT
0          TELEMETRY
[errors]
generated  DATASET
resnet8    NETWORK
8          RESOLUTION
2          CLASSES
128        SAMPLES
2          GROUPS
1          DEGREE
16         BATCH
2          EPOCHS
0.5        LEARNRATE
0.45       TARGET
"""


hpcai = partial(with_workload, "toy_training")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of results of a run on two ranks."""
    return results_of("toy_training", INPUT, tmp_path_factory.mktemp("toy"))


@pytest.fixture
def result(results: Path) -> Json:
    return dict(json.loads((results / "result.json").read_text("utf-8")))


@pytest.mark.slow
def test_scores_and_checks_honour_the_direction(results: Path, result: Json) -> None:
    (test,) = result["tests"]
    scores, raw = test["scores"], test["raw"]
    error = scores["quality"]
    assert error == 1 - raw["ensemble"]["correct"] / raw["dataset"]["validation_samples"]
    assert scores["valid_flops"] == pytest.approx(scores["flops"] * (0.45 / error) ** 5)
    assert scores["reached"] == (error <= 0.45)
    assert scores["member_best"] <= scores["member_min"] <= scores["member_max"]
    reached = [1 - entry["correct"] / 1000 <= 0.45 for entry in raw["curve"]]
    assert (raw["models"]["reached"] > 0) == (scores["member_best"] <= 0.45) and any(reached) <= raw["models"][
        "reached"
    ]
    (ceiling,) = (check for check in test["checks"] if check["name"].startswith("quality above the ceiling"))
    assert ceiling["verdict"] == "PASSED" and raw["dataset"]["ceiling"] < 0.2 < error
    (line,) = [line for line in (results / "report.txt").read_text().splitlines() if "quality(error)/target" in line]
    assert float(line.split()[1]) == pytest.approx(0.45 / error, abs=1e-6)
    assert line.split()[-1] == ("REACHED" if scores["reached"] else "MISSED")


def altered(result: Json, folder: Path, name: str, changes: dict[str, Any]) -> Path:
    """A result whose test has other raw measurements."""
    copy = json.loads(json.dumps(result))
    for path, value in changes.items():
        changed(path, value)(copy["tests"][0])
    file = folder / f"{name}.json"
    file.write_text(json.dumps(renewed(copy)))
    return file


@pytest.mark.slow
def test_the_result_is_verified_and_alterations_are_detected(results: Path, result: Json, tmp_path: Path) -> None:
    models = result["tests"][0]["raw"]["models"]
    best = altered(result, tmp_path, "best", {"raw.members.best": 999})
    reached = altered(result, tmp_path, "reached", {"raw.models.reached": 0 if models["reached"] else 2})
    perfect = altered(result, tmp_path, "perfect", {"raw.ensemble.correct": 1000})
    found = hpcai(tmp_path, "--verify", results, best, reached, perfect)
    assert f"{results}: every number follows from the raw measurements" in found.stdout
    assert "does not fulfil: members.best <= min" in found.stdout
    assert "models.reached > 0 if, and only if, the best reached the target" in found.stdout
    assert '"PASSED" is stored, "FAILED" follows from the raw measurements' in found.stdout
    assert found.stdout.count("NOT VERIFIED") == 3

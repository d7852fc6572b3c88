"""Labels that show in generated images: detected by the ceiling and by the samples' source; so are forged ceilings."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from fault_runs import CEILING, DELIVERED
from jsonschema import Draft202012Validator
from launch import ROOT, mpirun, run_job
from small_run import rebuilt, renewed

from hpcai.record import schema
from hpcai.verification import verify

pytestmark = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: LEAKS NOT PLANTED")

Json = dict[str, Any]
INPUT = """\
Generated images, the smallest possible
The second test shows its labels
[ensemble]
generated   DATASET
8           RESOLUTION
640         SAMPLES
1           GROUPS
2           DEGREE
16          BATCH
2           EPOCHS
0.25 0.5    LEARNRATE
"""


class Run:
    """A finished run of INPUT."""

    def __init__(self, folder: Path) -> None:
        (folder / "input.dat").write_text(INPUT)
        self.job = run_job([ROOT / "tests" / "jobs" / "faulty.py", "none,labels_in_the_images"], 2, folder)
        assert "End of Tests." in self.job.stdout, self.job.stdout + self.job.stderr
        self.file = next(folder.glob("results/*/result.json"))
        self.result: Json = json.loads(self.file.read_text())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(tmp_path_factory.mktemp("leak"))


@pytest.mark.exhaustive
def test_leak_is_detected_by_the_ceiling_and_by_the_samples_source(run: Run) -> None:
    sound, leaking = run.result["tests"]
    assert {check["verdict"] for check in sound["checks"]} - {"NOT CHECKED"} == {sound["verdict"]} == {"PASSED"}
    failed = {check["name"] for check in leaking["checks"] if check["verdict"] == "FAILED"}
    assert (failed, leaking["verdict"], run.job.returncode) == ({CEILING, DELIVERED}, "FAILED", 1)
    assert f"{CEILING:>48}=" in run.job.stdout
    assert leaking["scores"]["quality"] > 0.95 > leaking["raw"]["dataset"]["ceiling"] > sound["scores"]["quality"]


@pytest.mark.slow
def test_report_names_the_dataset_and_its_ceiling(run: Run) -> None:
    dataset = run.result["tests"][0]["raw"]["dataset"]
    printed = f"\nCeiling : {dataset['ceiling']:.6f}, standard error {dataset['ceiling_error']:.6f}; the sha256 is of"
    assert printed in run.job.stdout
    assert f"\nData    : generated-10x8, 640 + 1000 images, sha256 {dataset['fingerprint']}\n" in run.job.stdout
    sound = run.result["tests"][0]
    assert (sound["status"], sound["reasons"][0]) == ("UNOFFICIAL", "dataset generated-10x8, official imagenet")


@pytest.mark.slow
def test_result_follows_the_schema_and_is_verified(run: Run) -> None:
    Draft202012Validator(schema.schema()).validate(run.result)
    assert list(verify.differences(run.file)) == []


def altered(**dataset: Any) -> Callable[[Json], None]:
    return lambda raw: raw["dataset"].update(dataset)


@cache
def forgeries() -> dict[str, Callable[[Json], Any]]:
    return {
        "a higher ceiling": altered(ceiling=0.99),
        "a larger error": altered(ceiling_error=0.5),
        "no ceiling": altered(ceiling=None, ceiling_error=None),
        "other bytes": altered(fingerprint="0" * 64),
        "another name": altered(name="imagenet"),
        "a lower target": lambda raw: raw.update(target=0.5),
    }


@pytest.mark.slow
@pytest.mark.parametrize("what", forgeries())
def test_forged_dataset_is_detected(run: Run, tmp_path: Path, what: str) -> None:
    forged = json.loads(json.dumps(run.result))
    forgeries()[what](forged["tests"][0]["raw"])
    assert rebuilt(forged)["tests"][0]["verdict"] == "FAILED"
    (tmp_path / "result.json").write_text(json.dumps(renewed(forged)))
    found = "\n".join(verify.differences(tmp_path / "result.json"))
    assert "tests[0].raw does not fulfil" in found and ("dataset: the one" in found or "target: TARGET" in found)

"""A run of the program that has ended well, and what holds for any such run."""

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from launch import BENCH, Finished, run_job
from report_readers import assert_parsers_read_it

from hpcai.record import schema
from hpcai.verification import verify

Json = dict[str, Any]
ENVIRONMENT = {"OMP_NUM_THREADS": "1"}


class Run:
    """A finished run: the job, its one folder of results, and the sound result in it."""

    def __init__(self, folder: Path, text: str, ranks: int, *settings: str) -> None:
        (folder / "input.dat").write_text(text)
        self.job: Finished = run_job([BENCH, "--set", *settings], ranks, folder, env=ENVIRONMENT)
        assert self.job.returncode == 0, self.job.stdout + self.job.stderr
        (self.folder,) = (folder / "results").iterdir()
        self.result: Json = json.loads((self.folder / "result.json").read_text())
        self.tests: list[Json] = self.result["tests"]


def assert_sound(run: Run) -> None:
    """The result follows the schema, is verified, and read by parsers; all tests passed."""
    Draft202012Validator(schema.schema()).validate(run.result)
    assert verify.differences(run.folder / "result.json") == []
    assert_parsers_read_it(run.job.stdout, run.result)
    assert run.job.leftovers == [] and "End of Tests." in run.job.stdout
    assert {test["verdict"] for test in run.tests} == {"PASSED"}
    assert {test["status"] for test in run.tests} == {"UNOFFICIAL"}

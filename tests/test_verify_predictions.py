"""A file of predictions that contradicts the result, its data or its bootstraps is found by the verification."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_run import REAL_RUNS, Run, live_run, renewed

from hpcai.frozen.votes import VoteTables
from hpcai.inputfile import Case
from hpcai.record.loading import load
from hpcai.verification import verify
from hpcai.workloads.ensemble import prediction_tables
from hpcai.workloads.ensemble.checks import ensemble_of

FILE = prediction_tables.name(1)


def evaluated(run: Run) -> tuple[Any, VoteTables]:
    """The first test of a run, and its predictions."""
    result = load(run.folder / "result.json")
    test: Any = result.tests[0]
    case: Case = verify.cases_of(result)[0]
    entropy = int(test.raw.ensemble.recount.entropy, 16)
    return test, prediction_tables.read(
        run.folder / FILE, ensemble_of(case, test.raw.dataset), entropy
    )


def altered(folder: Path, change: Callable[[VoteTables], None], sealed: bool = True) -> list[str]:
    """Findings where the tables are altered and, if `sealed`, the result has their figures and digest."""
    run = live_run()
    test, found = evaluated(run)
    change(found)
    shutil.copy(run.folder / "result.json", folder)
    document = json.loads((folder / "result.json").read_text("utf-8"))
    if sealed:
        of = ensemble_of(verify.cases_of(load(run.folder / "result.json"))[0], test.raw.dataset)
        made = prediction_tables.recount(found, of, int(test.raw.ensemble.recount.entropy, 16))
        document["tests"][0]["raw"]["ensemble"]["recount"] = {n: getattr(made, n) for n in made.__struct_fields__}
        (folder / "result.json").write_text(json.dumps(renewed(document)), "utf-8")
    prediction_tables.write(folder / FILE, found)
    return [each for each in verify.differences(folder / "result.json") if each.startswith(FILE)]


@REAL_RUNS
def test_real_results_with_their_predictions_are_verified(run: Callable[[], Run]) -> None:
    assert verify.differences(run().folder / "result.json") == []
    assert "predictions-1.h5" in verify.sound_message(run().folder / "result.json")


def test_missing_predictions_are_reported(tmp_path: Path) -> None:
    shutil.copy(live_run().folder / "result.json", tmp_path)
    assert verify.differences(tmp_path / "result.json") == []
    assert "not counted again without" in verify.sound_message(tmp_path / "result.json").replace("evaluated", "counted")


def test_altered_predictions_are_not_those_of_the_result(tmp_path: Path) -> None:
    assert altered(tmp_path, lambda found: None) == []
    (found,) = altered(tmp_path, lambda found: found.together.__setitem__(3, 77), sealed=False)
    assert found == f"{FILE}: not the predictions of the result file"


def test_labels_are_read_anew(tmp_path: Path) -> None:
    (found,) = altered(tmp_path, lambda found: np.copyto(found.labels[:4], (found.labels[:4] + 1) % 10))
    assert found == f"{FILE}: labels of 4 validation samples that are not those of the data"


def test_bootstraps_are_made_anew(tmp_path: Path) -> None:
    (found,) = altered(tmp_path, lambda found: np.copyto(found.out[1, :5], 1 - found.out[1, :5]))
    assert found == f"{FILE}: model 1: 5 samples are out of the bag, or are not, other than by its bootstrap"


@pytest.mark.parametrize("content", [b"", b"no such file", b"\x89HDF\r\n\x1a\n" + 99 * b"\0"])
def test_a_damaged_file_is_reported(content: bytes, tmp_path: Path) -> None:
    shutil.copy(live_run().folder / "result.json", tmp_path)
    (tmp_path / FILE).write_bytes(content)
    (found,) = verify.differences(tmp_path / "result.json")
    assert found.startswith(f"{FILE} cannot be read: ")

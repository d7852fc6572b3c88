"""Energy of real runs is reported, verified, and detected when a number of it is altered."""

import copy
import csv
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from alterations import put, verified
from report_readers import assert_report_matches
from small_run import SEARCH, Run, rebuilt, run_of

from hpcai.errors import HpcaiError, InputError
from hpcai.inputfile import Problem, parse
from hpcai.inputfile.echo import echo
from hpcai.preflight.case_checks import check
from hpcai.verification import verify

INPUT = """Energy
of two groups
[ensemble]
fashion DATASET
8 RESOLUTION
1024 SAMPLES
2 GROUPS
1 DEGREE
8 BATCH
{epochs} EPOCHS
0.05 TARGET
"""
ENERGY = ("tests", 0, "raw", "energy")


def fixed() -> Run:
    """A short test at 250 W a node."""
    return run_of(INPUT.format(epochs=4), "ENERGY=250", "SAMPLES=256")


@pytest.mark.exhaustive
def test_fixed_watts_are_printed_recorded_and_verified() -> None:
    done = fixed()
    (test,) = done.result["tests"]
    energy, scores = test["raw"]["energy"], test["scores"]
    assert (energy["source"], energy["nodes"]) == ("fixed", 1) and energy["seconds"] >= test["seconds"]
    assert energy["joules"] == pytest.approx(250 * energy["seconds"]) and scores["mean_watts"] == pytest.approx(250)
    assert scores["joules_per_training"] == pytest.approx(energy["joules"] / 2)
    assert scores["joules_per_sample"] == pytest.approx(energy["joules"] / test["n"])
    assert scores["valid_flops_per_watt"] == pytest.approx(scores["valid_flops"] / 250)
    assert_report_matches(done.job.stdout, done.result)
    assert f"Energy  : {energy['joules']:.3f} J in {energy['seconds']:.3f} s, 250.0 W on average" in done.job.stdout
    assert verify.differences(done.folder / "result.json") == []


@pytest.mark.exhaustive
def test_result_csv_has_the_scores_of_energy() -> None:
    (line,) = csv.DictReader((fixed().folder / "result.csv").read_text("utf-8").splitlines())
    scores = fixed().result["tests"][0]["scores"]
    for name in ("mean_watts", "valid_flops_per_watt", "joules_per_sample", "joules_per_training"):
        assert float(line[name]) == scores[name]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("joules", 1.0),
        ("joules", None),
        ("seconds", 1e6),
        ("seconds", 0.0),
        ("nodes", 2),
        ("nodes", 0),
        ("source", "meter"),
        ("source", None),
        ("covers", "GPUs"),
        ("covers", None),
        ("reason", "no"),
        ("begun", "yesterday"),
    ],
)
def test_altered_energy_is_detected(field: str, value: Any, tmp_path: Path) -> None:
    altered = put(copy.deepcopy(fixed().result), (*ENERGY, field), value)
    try:
        made = rebuilt(altered)
    except HpcaiError:
        return
    assert made["summary"]["failed"] or verified(made, tmp_path)


@pytest.mark.parametrize(
    ("word", "value"), [("auto", "auto"), ("none", "none"), ("2.5e3", 2500.0), ("meter:~/m.csv", "meter:~/m.csv")]
)
def test_energy_is_a_word_watts_or_a_path(word: str, value: float | str) -> None:
    problem = parse(INPUT.format(epochs=1), [f"ENERGY={word}"])
    assert problem.run["ENERGY"] == value and parse(problem_text(problem)).run["ENERGY"] == value


def problem_text(problem: Problem) -> str:
    """The echo of a problem as an input."""
    return "\n".join([*problem.headers, *echo(problem)]) + "\n"


@pytest.mark.parametrize("word", ["0", "1e-300", "1e308", "-5", "1e999", "meter:", "watts", "file:x"])
def test_other_energy_is_refused(word: str) -> None:
    with pytest.raises(InputError, match=r"ENERGY.*allowed: auto \| none \| meter:PATH \| a number from 1 to 1000000"):
        parse(INPUT.format(epochs=1), [f"ENERGY={word}"])


@pytest.mark.exhaustive
def test_a_run_without_energy_says_so() -> None:
    done = run_of(INPUT.format(epochs=1), "ENERGY=none")
    assert done.job.stdout.count("Energy  : n/a, ENERGY none\n") == 1
    assert done.result["tests"][0]["scores"]["mean_watts"] is None
    assert "energy of the timed region, J=  n/a, see Energy" in done.job.stdout


@pytest.mark.exhaustive
def test_a_search_has_energy() -> None:
    done = run_of(SEARCH, "ENERGY=250")
    (test,) = done.result["tests"]
    energy = test["raw"]["energy"]
    assert energy["joules"] == pytest.approx(250 * energy["seconds"]) and energy["seconds"] >= test["raw"]["seconds"]
    assert test["scores"]["mean_watts"] == pytest.approx(250)
    assert verify.differences(done.folder / "result.json") == []


def test_a_meter_that_is_no_file_is_refused_before_the_run(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        (case, *_) = parse(INPUT.format(epochs=1), [f"ENERGY=meter:{path}"]).cases(2)
        with pytest.raises(InputError, match=f"ENERGY meter:{path}: no regular file; allowed: the file of a meter"):
            check([case], torch.device("cpu"))
    (case, *_) = parse(INPUT.format(epochs=1), [f"ENERGY=meter:{tmp_path}/later.csv"]).cases(2)
    check([case], torch.device("cpu"))

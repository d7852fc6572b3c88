"""MLPerf logs of real runs: mlperf_logging's own checker accepts them with our rules, and refuses altered ones."""

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from job_folder import END, listing, prepared
from launch import BENCH, ROOT, mpirun, run_job
from small_run import SEARCH, Run, run_of

from hpcai import recorder
from hpcai.mllog import FOLDER, RULES, log_path

ABSENT = "NO mlperf_logging: LOGS NOT CHECKED"
checker = pytest.importorskip("mlperf_logging.compliance_checker.mlp_compliance", reason=ABSENT)
systems = pytest.importorskip("mlperf_logging.system_desc_checker.system_desc_checker", reason=ABSENT)

INPUT = """Acme, "the" <site>
of two groups
on MLLOG
[ensemble]
fashion DATASET
1024 SAMPLES
2 GROUPS
1 DEGREE
8 BATCH
2 EPOCHS
adamw OPTIMISER
none SCALING
0.002 LEARNRATE
0.05 TARGET
"""
Json = dict[str, Any]


def lines_of(path: Path) -> list[Json]:
    """The events of a log."""
    return [json.loads(line.removeprefix(":::MLLOG ")) for line in path.read_text("utf-8").splitlines()]


def log(group: int, done: Run | None = None) -> list[Json]:
    return lines_of(log_path((done or run_of(INPUT)).folder, 1, group))


def one(events: list[Json], key: str) -> Json:
    """The only event with a key."""
    (found,) = [event for event in events if event["key"] == key]
    return found


def accepted(path: Path) -> bool:
    """Whether the package's checker accepts a log."""
    return bool(checker.main(str(path), str(RULES), checker.make_checker("hpc", "3.0.0", True, True))[0])


@pytest.mark.exhaustive
@pytest.mark.parametrize("group", [0, 1])
def test_the_packages_checker_accepts_the_log_of_each_group(group: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mlperf_logging.compliance_checker", "--usage", "hpc", "--ruleset", "3.0.0"]
    config = subprocess.run([sys.executable, "-m", "hpcai.mllog"], cwd=ROOT, capture_output=True, text=True)
    options = ["--werror", "--config", config.stdout.strip(), str(log_path(run_of(INPUT).folder, 1, group))]
    done = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "SUCCESS" in done.stderr, done.stderr


def without(key: str) -> Callable[[list[Json]], list[Json]]:
    return lambda events: [event for event in events if event["key"] != key]


def changed(key: str, **values: Any) -> Callable[[list[Json]], list[Json]]:
    return lambda events: [event | (values if event["key"] == key else {}) for event in events]


def with_status(status: str) -> Callable[[list[Json]], list[Json]]:
    return changed("run_stop", metadata={"status": status})


def twice(key: str) -> Callable[[list[Json]], list[Json]]:
    return lambda events: [each for event in events for each in [event] * (1 + (event["key"] == key))]


def early(key: str) -> Callable[[list[Json]], list[Json]]:
    """The first event with a key at a time before that of the event before it."""

    def alter(events: list[Json]) -> list[Json]:
        place = next(place for place, event in enumerate(events) if event["key"] == key)
        late = {**events[place], "time_ms": events[place - 1]["time_ms"] - 5}
        return [*events[:place], late, *events[place + 1 :]]

    return alter


ALTERED: dict[str, Callable[[list[Json]], list[Json]]] = {
    "no end": without("run_stop"),
    "two ends": twice("run_stop"),
    "no validation": without("eval_accuracy"),
    "success below the target": changed("eval_accuracy", value=0.01),
    "aborted above the target": with_status("aborted"),
    "a status that there is not": with_status("good"),
    "an epoch ends before it begins": early("epoch_stop"),
    "a validation ends before it begins": early("eval_stop"),
    "the run begins before the warm-up ends": early("run_start"),
    "the run ends before its last validation": early("run_stop"),
    "no beginning of an epoch": without("epoch_start"),
    "an epoch that the input does not have": changed("epoch_start", metadata={"epoch_num": 9}),
    "no site": changed("submission_org", value=""),
    "another benchmark": changed("submission_benchmark", value="deepcam"),
    "no nodes": changed("number_of_nodes", value=0),
    "more nodes than ranks": changed("number_of_nodes", value=2),
    "no optimiser": without("opt_name"),
    "no seed": without("seed"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ALTERED)
def test_the_packages_checker_refuses_altered_logs(name: str, tmp_path: Path) -> None:
    altered = ALTERED[name](log(0))
    assert altered != log(0)
    path = tmp_path / "result_0.txt"
    path.write_text("".join(f":::MLLOG {json.dumps(event)}\n" for event in altered))
    assert not accepted(path)


@pytest.mark.slow
def test_the_content_is_that_of_the_run() -> None:
    result, events = run_of(INPUT).result, log(0)
    (test,) = result["tests"]
    values = {event["key"]: event["value"] for event in events}
    assert values["submission_org"] == 'Acme, "the" <site>'
    assert (values["submission_benchmark"], values["network"]) == ("hpcai_ensemble", "resnet8")
    assert (values["number_of_ranks"], values["number_of_nodes"], values["group"]) == (1, 1, 0)
    assert (values["global_batch_size"], values["train_samples"], values["eval_samples"]) == (8, 1024, 2000)
    assert (values["opt_name"], values["opt_base_learning_rate"], values["opt_adamw_beta_1"]) == ("adamw", 0.002, 0.9)
    assert values["opt_adamw_epsilon"] == 1e-8  # what EPSILON 0 stands for
    qualities = [entry["correct"] / 2000 for entry in test["raw"]["curve"]]
    assert [event["value"] for event in events if event["key"] == "eval_accuracy"] == qualities
    assert one(log(1), "group")["value"] == 1
    assert str(ROOT) not in log_path(run_of(INPUT).folder, 1, 0).read_text("utf-8")


@pytest.mark.slow
def test_the_times_are_those_of_the_run() -> None:
    result = run_of(INPUT).result
    (test,) = result["tests"]
    energy, begun = test["raw"]["energy"], datetime.fromisoformat(result["date"]).timestamp()
    written = log_path(run_of(INPUT).folder, 1, 0).stat().st_mtime
    for events in (log(0), log(1)):
        start, stop = (one(events, key)["time_ms"] / 1000 for key in ("run_start", "run_stop"))
        assert begun < start < stop < written
        region = datetime.fromisoformat(energy["begun"]).timestamp()
        assert region - 0.1 < start and stop < region + energy["seconds"] + 0.1
    first = [event["time_ms"] / 1000 for event in log(0) if event["key"] == "eval_stop"]
    for instant, entry in zip(first, test["raw"]["curve"], strict=True):
        assert instant - one(log(0), "run_start")["time_ms"] / 1000 > entry["seconds"] - 0.1


@pytest.mark.slow
def test_the_system_description_has_all_fields() -> None:
    path = run_of(INPUT).folder / "mllog" / "system.json"
    valid, name, *_ = systems.check_system_desc(str(path), "hpc", "3.0.0")
    found, environment = json.loads(path.read_text("utf-8")), run_of(INPUT).result["environment"]
    assert valid and name == found["system_name"] == f"{environment['processor']} x 1 node"
    assert found["number_of_nodes"] == "1" and found["host_processor_model_name"] == environment["processor"]
    assert found["cooling"] == "" and found["framework"].startswith("torch ")


@pytest.mark.slow
def test_throughput_is_of_the_models_that_reached_the_target() -> None:
    (test,) = run_of(INPUT).result["tests"]
    rate = 60 * 2 / test["raw"]["energy"]["seconds"]
    assert test["scores"]["models_per_minute"] == pytest.approx(rate)
    assert f"models that reached the target per minute= {rate:16.7f}" in run_of(INPUT).job.stdout


@pytest.mark.exhaustive
def test_a_search_has_the_trials_of_each_group() -> None:
    done = run_of(SEARCH, "MLLOG=on")
    path = log_path(done.folder, 1, 0)
    trials = {event["metadata"]["trial"] for event in lines_of(path) if event["key"] == "eval_accuracy"}
    assert trials == {1, 2} and accepted(path)
    assert one(lines_of(path), "number_of_ranks")["value"] == 2


@pytest.mark.exhaustive
def test_a_run_that_is_broken_off_leaves_an_aborted_log(tmp_path: Path) -> None:
    """Although a validation reached the target."""
    path = tmp_path / "input.dat"
    path.write_text(INPUT.replace("2 EPOCHS", "9999 EPOCHS"), "utf-8")
    job = run_job([BENCH, path, "--set", "TIMELIMIT=20"], 2, tmp_path)
    assert job.returncode == 3 and not job.leftovers, job.stderr
    (folder,) = (tmp_path / "results").iterdir()
    assert one(lines_of(log_path(folder, 1, 0)), "run_stop")["metadata"]["status"] == "aborted"


@pytest.mark.slow
@pytest.mark.skipif(mpirun() is None, reason="NO mpirun: REFUSAL NOT TESTED")
def test_without_the_package_the_run_is_refused(tmp_path: Path) -> None:
    folder, hiding = prepared(tmp_path / "job"), tmp_path / "hiding"
    hiding.mkdir()
    (hiding / "sitecustomize.py").write_text("import sys\nsys.modules['mlperf_logging'] = None\n")
    (folder / "input.dat").write_text(INPUT)
    before = listing(folder)
    job = run_job([BENCH], 2, folder, END, {"PYTHONPATH": f"{hiding}:{ROOT}"})
    assert (job.returncode, job.stdout, listing(folder)) == (2, "", before)
    assert "MLLOG on needs the package mlperf-logging; allowed: pip install 'hpcai-bench[mllog]'" in job.stderr
    assert job.stderr.count("\n") == 1 and job.stderr.startswith("hpcai: ")


def test_a_folder_that_cannot_be_made_is_told_and_ends_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / FOLDER).write_text("a file of this name")
    recorder._write_system(tmp_path, "{}")
    assert "hpcai: no MLPerf logs: cannot make the folder" in capsys.readouterr().err

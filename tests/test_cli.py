"""The command line: accepted options, written files, and exit codes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from launch import BENCH, Finished, mpirun, run_job
from sampled_parameters import one_in
from small_run import INPUT, bench, failing_run, live_run

from hpcai import __version__, cli
from hpcai.errors import InputError
from hpcai.inputfile import parse, shipped_text
from hpcai.record import schema
from hpcai.record.check_declarations import CEILING, CLAIMS, RESIDUAL
from hpcai.record.plain import plain
from hpcai.record.problem import input_of

needs_mpirun = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: MPI TESTS NOT RUN")


def run(folder: Path, *arguments: str, ranks: int | None = None) -> Finished:
    return run_job([BENCH, *arguments], ranks, folder)


def small(folder: Path) -> Path:
    """A copy of the small problem as the folder's input.dat."""
    path = folder / "input.dat"
    path.write_text(INPUT.read_text())
    return path


def left_in(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", ("input.dat", ())),
        ("my.dat", ("my.dat", ())),
        ("--set SEED=2", ("input.dat", ("SEED=2",))),
        ("my.dat --set SEED=2 ensemble.BATCH=1,2", ("my.dat", ("SEED=2", "ensemble.BATCH=1,2"))),
        ("--set SEED=2 my.dat", ("my.dat", ("SEED=2",))),
        ("--set SEED=2 --set GROUPS=1,2 DEGREE=1,1 my.dat", ("my.dat", ("SEED=2", "GROUPS=1,2", "DEGREE=1,1"))),
    ],
)
def test_input_and_settings_are_parsed(arguments: str, expected: tuple[str, tuple[str, ...]]) -> None:
    options = cli.parse(arguments.split())
    assert (options.input, options.overrides) == expected
    assert not (options.plan or options.write_input or options.schema or options.verify or options.ranks)


def test_actions_are_parsed() -> None:
    for name in ("--plan", "--check"):  # the second is its former name
        planned = cli.parse([name, "--ranks", "100000"])
        assert planned.plan and planned.ranks == 100_000
    assert cli.parse(["--verify", "a/b", "c"]).verify == ("a/b", "c")
    assert cli.parse(["--schema"]).schema and cli.parse(["--write-input"]).write_input


@pytest.mark.parametrize(
    "arguments",
    [
        "--chec",
        "--nonsense",
        "-x",
        "one.dat two.dat",
        "--set",
        "one.dat --set two.dat",
        "--verify",
        "--check --schema",
        "--write-input --verify x",
        "--ranks 4",
        "--check --ranks 0",
        "--check --ranks -1",
        "--check --ranks 2.0",
        "--check --ranks \u0664",
        "--check --ranks",
    ],
)
def test_bad_options_are_refused(arguments: str) -> None:
    with pytest.raises(InputError, match=r"^command line: ") as refused:
        cli.parse(arguments.split())
    assert refused.value.exit_code == 2 and "\n" not in str(refused.value)


def test_help_loads_neither_numpy_nor_torch_nor_mpi(tmp_path: Path) -> None:
    for option, stdout in (("--help", "usage: bench.py"), ("--version", f"hpcai-bench {__version__}\n")):
        words = [sys.executable, "-X", "importtime", BENCH, option]
        finished = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert finished.stdout.startswith(stdout)
        loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in finished.stderr.splitlines()}
        assert "argparse" in loaded and not loaded & {"numpy", "torch", "h5py", "mpi4py"}
    assert left_in(tmp_path) == []


def test_help_lists_every_option(tmp_path: Path) -> None:
    text = run(tmp_path, "--help").stdout
    for option in ("--set", "--plan", "--ranks", "--write-input", "--verify", "--schema", "--version", "INPUT"):
        assert option in text


def test_schema_is_printed(tmp_path: Path) -> None:
    finished = run(tmp_path, "--schema")
    assert (finished.returncode, finished.stderr) == (0, "")
    assert json.loads(finished.stdout) == schema.schema()


def test_write_input_writes_the_shipped_problem_once(tmp_path: Path) -> None:
    finished = run(tmp_path, "--write-input")
    written = tmp_path / "input.dat"
    assert (finished.returncode, finished.stdout) == (0, f"wrote {written}\n")
    assert written.read_text("utf-8") == shipped_text()
    written.write_text("mine")
    finished = run(tmp_path, "--write-input")
    assert (finished.returncode, finished.stdout) == (2, "")
    assert str(written) in finished.stderr and "exists" in finished.stderr
    assert written.read_text() == "mine" and left_in(tmp_path) == ["input.dat"]


@needs_mpirun
def test_write_input_on_ranks_writes_and_prints_once(tmp_path: Path) -> None:
    finished = run(tmp_path, "--write-input", ranks=2)
    assert finished.returncode == 0 and finished.stdout.count("wrote") == 1
    assert (tmp_path / "input.dat").read_text("utf-8") == shipped_text()


@pytest.mark.slow
def test_check_plans_for_the_ranks_of_the_option(tmp_path: Path) -> None:
    small(tmp_path)
    finished = run(tmp_path, "--plan", "--ranks", "100000", "--set", "GROUPS=0,1", "ensemble.BATCH=16,32")
    assert (finished.returncode, finished.stderr) == (0, "")
    assert finished.stdout.startswith("input.dat: 4 tests, planned for 100000 ranks; nothing was run\n")
    grids = [line.split()[1:5] for line in finished.stdout.splitlines()[3:7]]
    assert grids == [
        ["16", "100000", "1", "0"],
        ["32", "100000", "1", "0"],
        ["16", "1", "2", "99998"],
        ["32", "1", "2", "99998"],
    ]
    assert left_in(tmp_path) == ["input.dat"]


@pytest.mark.exhaustive
@needs_mpirun
def test_check_plans_for_the_ranks_it_was_started_with(tmp_path: Path) -> None:
    finished = run(tmp_path, str(small(tmp_path)), "--plan", ranks=3)
    assert finished.returncode == 0 and finished.stdout.count("planned for") == 1
    assert "planned for 3 ranks" in finished.stdout
    assert left_in(tmp_path) == ["input.dat"]


def refused(finished: Finished, folder: Path) -> str:
    """The message of a refusal: exit code 2, nothing on stdout, no traceback, nothing written."""
    assert (finished.returncode, finished.stdout) == (2, ""), finished.stderr
    assert finished.stderr.startswith("hpcai: ") and "Traceback" not in finished.stderr
    assert left_in(folder) in ([], ["input.dat"])
    return finished.stderr


def test_a_missing_input_is_refused_with_the_folder_and_the_remedy(tmp_path: Path) -> None:
    for arguments in ([], ["--check"]):
        said = refused(run(tmp_path, *arguments), tmp_path)
        assert "input.dat" in said and str(tmp_path) in said and "--write-input" in said


@needs_mpirun
@pytest.mark.parametrize("option", one_in(3, ["BACH=1", "GROUPS=3", "SAMPLES=6001"]))
def test_a_bad_input_is_refused_once_for_all_ranks(tmp_path: Path, option: str) -> None:
    small(tmp_path)
    said = refused(run(tmp_path, "--set", option, ranks=2), tmp_path)
    assert said.replace("hpcai: compiling", "").count("hpcai: ") == 1


def test_all_errors_are_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "input.dat").write_text(INPUT.read_text().replace("32 ", "x ").replace("200 ", "1.5 "))
    said = refused(run(tmp_path, "--check", "--ranks", "1", "--set", "EPOCHS=0"), tmp_path)
    for what in ("line 8", "1.5", "line 11", "--set EPOCHS=0", "GROUPS 2 x DEGREE 1 needs 2 ranks"):
        assert what in said


@pytest.mark.parametrize(
    "arguments", [["--nonsense"], ["--set", "SEED"], ["--verify", "nowhere.json"], ["--ranks", "2"]]
)
def test_bad_command_lines_are_refused(tmp_path: Path, arguments: list[str]) -> None:
    refused(run(tmp_path, *arguments), tmp_path)


def test_text_of_all_scripts_is_printed_under_any_locale(tmp_path: Path) -> None:
    finished = run_job([BENCH, "--check", "\u6f22.dat"], None, tmp_path, env={"PYTHONIOENCODING": "ascii"})
    assert "cannot read \u6f22.dat" in refused(finished, tmp_path)


@pytest.mark.slow
def test_stdout_is_the_report_and_nothing_else() -> None:
    run = live_run()
    assert run.job.returncode == 0
    assert run.job.stdout == (run.folder / "report.txt").read_text("utf-8")
    of_tests = ["predictions-1.h5", "predictions-2.h5"]
    assert left_in(run.folder) == ["SHA256SUMS", *of_tests, "report.txt", "result.csv", "result.json", "series.h5"]
    assert not run.job.leftovers


@pytest.mark.slow
def test_results_are_named_by_output_and_utc_time() -> None:
    result = live_run().result
    assert re.fullmatch(r"golden-\d{8}T\d{6}Z(-\d+)?", live_run().folder.name)
    assert live_run().folder.name[7:23] >= re.sub("[-:]", "", result["date"])[:15]


@pytest.mark.exhaustive
def test_settings_of_the_command_line_are_kept_with_the_result() -> None:
    given = failing_run().result["input"]
    assert "EPOCHS=3" in given["overrides"]
    assert given["sections"][0]["keys"]["EPOCHS"] == {"values": [3], "default": False}
    assert plain(input_of(parse(given["text"], given["overrides"])))["sections"] == given["sections"]
    assert "\nCommand line: --set EPOCHS=3\n" in failing_run().job.stdout


@pytest.mark.exhaustive
def test_a_failed_test_is_exit_code_1() -> None:
    assert failing_run().job.returncode == 1
    assert failing_run().job.stdout.endswith("End of Tests.\n" + "=" * 80 + "\n")


@pytest.mark.slow
def test_one_rank_without_mpirun() -> None:
    """On one processor: threads that wait for each other are slow on busy processors."""
    changes = ["GROUPS=1", "DEGREE=1", "EPOCHS=1", "SAMPLES=64", "RESIDUAL=1e-9"]
    run = bench([str(INPUT), "--set", *changes], None, cpus={min(os.sched_getaffinity(0))})
    (test,) = run.result["tests"]
    assert run.job.returncode == 1
    verdicts = {check["name"]: check["verdict"] for check in test["checks"]}
    assert {name for name, verdict in verdicts.items() if verdict == "FAILED"} == {RESIDUAL.name}
    assert {name for name, verdict in verdicts.items() if verdict == "NOT CHECKED"} == {CEILING.name, CLAIMS.name}

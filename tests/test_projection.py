"""The projection finds what made-up trainings were made of; a wrong table shows; the published check; the command."""

import dataclasses
import io
import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from launch import ROOT
from made_up_trainings import COMPUTE, TRUE, measured, observation
from msgspec.structs import replace
from result_with_tables import result_with_tables
from small_run import GOLDEN, golden, renewed

from hpcai.errors import InputError
from hpcai.projection.__main__ import main
from hpcai.projection.errors import leave_one_out
from hpcai.projection.fit import fit
from hpcai.projection.links import fitted, timings
from hpcai.projection.machine import machine_of
from hpcai.projection.machines import FOLDER, names
from hpcai.projection.measured import agree
from hpcai.projection.published import compared
from hpcai.record.loading import result_of

POINTS = 0.05


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The outcome of the command, without a process of its own."""
    words, out, err = [*map(str, arguments)], io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(words)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def test_the_links_of_made_up_tables_are_found() -> None:
    links = fitted((timing for _, timing in measured().timings), "gloo", 1)
    assert links.between is not None and links.within is None
    assert links.between.latency == pytest.approx(TRUE.latency, rel=1e-3)
    assert links.between.per_byte == pytest.approx(TRUE.per_byte, rel=1e-3)
    assert fitted((timing for _, timing in measured().timings), "mpi", 1).between is None


def test_sizes_that_were_not_measured_are_found() -> None:
    found = fit(measured())
    assert found.compute.mean == pytest.approx(COMPUTE.mean, rel=1e-6)
    assert found.compute.per_byte == pytest.approx(COMPUTE.per_byte, rel=1e-4)
    for ranks in (6, 8):
        assert found.project(1, ranks).seconds == pytest.approx(observation(9, ranks).seconds, rel=1e-3)


def test_the_error_is_small_where_the_model_holds() -> None:
    errors = leave_one_out(measured())
    assert (len(errors.found), errors.tried) == (4, 4)
    worst = errors.worst("flops")
    assert worst is not None and worst < 1e-3


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_a_wrong_table_is_seen_in_the_error(ranks: int) -> None:
    worst = leave_one_out(measured(wrong=ranks)).worst("flops")
    assert worst is not None and worst > POINTS


def test_a_disturbed_training_does_not_set_the_spread_of_all() -> None:
    whole, spreads = measured(), (1.0, 0.02, 0.01, 0.02)
    seen = tuple(dataclasses.replace(each, spread=s) for each, s in zip(whole.observations, spreads, strict=True))
    assert fit(type(whole)(seen, whole.timings)).compute.spread == pytest.approx(0.02)


def test_one_training_has_no_error() -> None:
    whole = measured()
    alone = type(whole)(whole.observations[1:2], whole.timings)
    assert leave_one_out(alone).worst("flops") is None


def test_published_efficiencies_are_within_five_points() -> None:
    found = compared(machine_of("v2-v100"))
    assert [(each.projected.ranks, each.published) for each in found] == [(16, 0.91), (32, 0.85), (64, 0.71)]
    off = [each.efficiency - each.published for each in found if each.published is not None]
    assert max(map(abs, off)) <= POINTS, off


def test_the_published_check_depends_on_the_link() -> None:
    machine = machine_of("v2-v100")
    assert machine.between
    faster = replace(machine, between=replace(machine.between, bandwidth=1.25e9))
    assert compared(faster)[-1].efficiency > compared(machine)[-1].efficiency + POINTS


def test_published_digits_are_those_of_the_page() -> None:
    published = machine_of("v2-v100").published
    assert published and published.reference == 8
    assert "| 0.91, 0.85, 0.71 on 16, 32, 64 |" in (ROOT / "docs" / "PAPERS.md").read_text()


@pytest.mark.parametrize("name", names())
def test_every_number_of_a_shipped_machine_has_its_source(name: str) -> None:
    machine = machine_of(name)
    tables = (machine.within, machine.between, machine.rank, machine.case, machine.published, machine.storage)
    assert all(table.source for table in tables if table is not None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = 1", "Expected `str`, got `int` - at `$.name`"),
        ('name = "a"', "missing required field `node`"),
        ('name = "a"\n[node]\nranks = 0', "at `$.node.ranks`"),
        ('name = "a"\nspeed = 1\n[node]\nranks = 2', "unknown field `speed`"),
        ('name = "a"\n[node]\nranks = 2\n[between]\nlatency = 0\nbandwidth = 0', "at `$.between.bandwidth`"),
        (
            'name = "a"\n[node]\nranks = 2\n[published]\nreference = 1\nranks = [2]\nefficiency = []',
            "different lengths",
        ),
        ("name =", "machine file"),
    ],
)
def test_a_wrong_machine_file_is_refused(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text)
    with pytest.raises(InputError) as refused:
        machine_of(str(path))
    assert said in str(refused.value) and str(path) in str(refused.value)


def test_an_unknown_machine_names_the_shipped_ones() -> None:
    finished = command("--machine", "nothing")
    assert finished.returncode == 2 and finished.stderr.count("\n") == 1
    assert "No such file or directory; allowed: a file, or one of" in finished.stderr and "v2-v100" in finished.stderr


def test_tables_of_a_result_are_read() -> None:
    result = result_with_tables()
    found = [*timings(result)]
    assert found and all(not each.crossing for each in found)  # of one node
    assert {each.by for each in found} >= {"gloo"}


def test_every_line_says_projected() -> None:
    program = [sys.executable, "-m", "hpcai.projection", str(GOLDEN), "--ranks", "4,1000000", "--degree", "1"]
    finished = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    lines = finished.stdout.splitlines()
    assert len(lines) > 6 and all(line.startswith("PROJECTED ") for line in lines)
    assert "WR" not in finished.stdout  # which parsers of rows search for
    assert "not a result, never ranked" in lines[0]
    row = next(line.split() for line in lines if line.split()[1:2] == ["1000000"])
    assert row[2:4] == ["1000000", "1"] and "%" in row


def test_a_described_machine() -> None:
    finished = command(GOLDEN, "--ranks", "4", "--machine", FOLDER / "example-1000-nodes.toml")
    assert finished.returncode == 0, finished.stderr
    assert "machine: 1,000 nodes of 8 GPUs (example)" in finished.stdout


def test_what_is_not_known_is_refused() -> None:
    finished = command(GOLDEN, "--ranks", "4")
    assert finished.returncode == 2 and finished.stdout == ""
    assert "are not known; allowed: results with a table of [comm]" in finished.stderr
    assert "a step of" in command(GOLDEN, "--ranks", "100000", "--machine", "v2-v100").stderr
    assert "no multiple of --degree 3" in command(GOLDEN, "--ranks", "4", "--degree", "3").stderr
    assert "--ranks N,... is missing" in command(GOLDEN).stderr
    assert "nothing to project from" in command().stderr
    assert "no [case] and [rank]" in command("--machine", FOLDER / "example-1000-nodes.toml").stderr


def test_a_result_that_is_not_verified_is_refused(tmp_path: Path) -> None:
    altered = golden()
    altered["tests"][0]["gflops"] *= 2
    (tmp_path / "result.json").write_text(json.dumps(renewed(altered)))
    finished = command(tmp_path, "--ranks", "4")
    assert finished.returncode == 2 and finished.stdout == "" and finished.stderr.count("\n") == 1
    assert "is not verified" in finished.stderr and "bench.py --verify confirms" in finished.stderr


def test_a_printed_projection_is_not_ranked(tmp_path: Path) -> None:
    (tmp_path / "report.txt").write_text(command("--machine", "v2-v100").stdout)
    program = [sys.executable, "-m", "hpcai.ranking", str(tmp_path)]
    ranked = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ranked.returncode == 2, ranked.stdout


def test_results_of_several_machines_are_refused() -> None:
    result = result_of(golden())
    other = replace(result, environment=replace(result.environment, processor="another processor"))
    with pytest.raises(InputError, match="results of several machines: processor .* and another processor"):
        agree([result, other])

"""Faults in records and files after the measurement: the run finds them in its own result and exits with 1."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from job_folder import INPUT, START, prepared
from launch import BENCH, ROOT, Finished, mpirun, run_job
from sampled_parameters import fast

pytestmark = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: FAULTS NOT PLANTED")
FAULTY = ROOT / "tests" / "jobs" / "file_faults.py"
HEADERS = "\n".join(INPUT.splitlines()[:2])
KERNELS = f"{HEADERS}\n[kernels]\n24 SHAPES\n"
SEARCH = INPUT.replace("[ensemble]", "[nas]").replace("1                 GROUPS", "2 GROUPS").replace(
    "2                 DEGREE", "1 DEGREE"
)


@dataclass(frozen=True)
class Planted:
    """A fault: the input of the run, and words of the difference that the run has to print."""

    fault: str
    text: str
    found: str
    slow: bool = True


FAULTS = [
    Planted("samples_altered_after_measurement", INPUT, "tests[0].n: "),
    Planted("ranks_miscounted", INPUT, "ranks: each that is listed, in order"),
    Planted("arrivals_not_compared", INPUT, "tests[0].raw.delivered is missing", slow=False),
    Planted("phases_not_added_up", INPUT, "tests[0].raw.accounting is missing"),
    Planted("second_clock_not_read", INPUT, "tests[0].wall is missing"),
    Planted("network_not_checked", INPUT, "tests[0].raw.preparation.network_check is missing"),
    Planted("report_written_wrong", INPUT, "report.txt, line "),
    Planted("result_written_wrong", INPUT, "digest: "),
    Planted("series_written_short", INPUT, "series.h5 cannot be read: "),
    Planted("sums_written_wrong", INPUT, "series.h5 is not in SHA256SUMS"),
    Planted("kernels_written_wrong", KERNELS, "kernels.csv, line "),
    Planted("history_written_wrong", SEARCH + "2 ROUNDS\n", "history.jsonl: not the lines that the search appended"),
    Planted("history_altered_after_the_search", SEARCH + "2 ROUNDS\n", "history.jsonl: trial "),
    # One round: in a second one a child may read the file, which ends the search at once, with another sentence.
    Planted("weights_written_wrong", SEARCH + "1 ROUNDS\n", "tensors is altered: SHA256SUMS lists another SHA-256"),
]


def run(folder: Path, text: str, *program: object) -> Finished:
    prepared(folder)
    (folder / "input.dat").write_text(text)
    return run_job([*map(str, program)], 2, folder, START, {"OMP_NUM_THREADS": "1"})


FAST = [each for each in FAULTS if not each.slow]


@pytest.mark.parametrize("planted", fast(FAST, FAULTS), ids=lambda each: each.fault)
def test_the_run_finds_what_its_files_have_wrong(tmp_path: Path, planted: Planted) -> None:
    job = run(tmp_path, planted.text, FAULTY, planted.fault)
    assert job.returncode == 1, job.stdout + job.stderr
    lines = [line for line in job.stderr.splitlines() if line.startswith("hpcai: the result does not verify: ")]
    assert any(planted.found in line for line in lines), job.stderr
    printed = [line for line in job.stdout.splitlines() if line.startswith("FAILED: the result does not verify: ")]
    assert len(printed) == len(lines) and any(planted.found in line for line in printed)
    (final,) = [line for line in job.stdout.splitlines() if line.startswith("Final Summary::")]
    assert "INVALID" in final and "; the result does not verify" in final
    assert "End of Tests." in job.stdout


@pytest.mark.exhaustive
@pytest.mark.parametrize("text", [INPUT, KERNELS, SEARCH + "2 ROUNDS\n"], ids=["ensemble", "kernels", "nas"])
def test_the_same_runs_without_a_fault_verify(tmp_path: Path, text: str) -> None:
    job = run(tmp_path, text, BENCH)
    assert job.returncode == 0, job.stdout + job.stderr
    assert "does not verify" not in job.stdout + job.stderr
    (path,) = tmp_path.glob("results/*/result.json")
    assert json.loads(path.read_text())["unverified"] == []
    assert run_job([BENCH, "--verify", path.parent], None, tmp_path).returncode == 0


def test_every_fault_of_the_module_is_planted() -> None:
    text = FAULTY.read_text()
    names = [line.split("(")[0].removeprefix("def ") for line in text.splitlines() if line.startswith("def ")]
    assert {name for name in names if not name.startswith("_")} == {each.fault for each in FAULTS}

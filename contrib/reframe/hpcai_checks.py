"""A ReFrame check: runs the benchmark with a small input, verifies its result, and compares the figures of its summary.

    reframe -C SETTINGS.py -c contrib/reframe/hpcai_checks.py -r

Environment variables:

    HPCAI_RANKS       numbers of ranks, separated by commas; a check for each (2)
    HPCAI_INPUT       the input file (small.dat beside this file)
    HPCAI_PYTHON      the Python that has the benchmark's packages (that of .venv/ of this checkout, else python3)
    HPCAI_REFERENCES  a JSON file with a site's references; without one figures are reported, and compared with nothing

A file of references has ReFrame's (value, lower, upper, unit) by system and figure, where null is no bound:

    {"cluster:gpu": {"gflops": [120000, -0.05, null, "GFLOP/s"], "quality": [0.85, -0.01, null, "1"]}}
"""

import json
import os
from pathlib import Path

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import parameter, run_before, sanity_function, variable

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent
SOUND = "every number follows from the raw measurements"
# Figures of the summary section of the report, and their units; a run has those that its input measures.
FIGURES = {
    "gflops": "GFLOP/s",
    "valid_gflops": "GFLOP/s",
    "quality": "1",
    "ceiling_gemm_gflops": "GFLOP/s",
    "ceiling_convolution_gflops": "GFLOP/s",
}


def own_python() -> str:
    """The Python to run with, as HPCAI_PYTHON names it."""
    own = CHECKOUT / ".venv/bin/python"
    return os.environ.get("HPCAI_PYTHON") or (str(own) if own.exists() else "python3")


def references() -> dict[str, dict[str, tuple[object, ...]]]:
    """The site's references; empty without a file."""
    path = os.environ.get("HPCAI_REFERENCES")
    found = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
    return {system: {name: tuple(each) for name, each in own.items()} for system, own in found.items()}


@rfm.simple_test
class HpcaiCheck(rfm.RunOnlyRegressionTest):
    """The benchmark on some ranks: it ends, no check of it FAILED, and its result is sound."""

    ranks = parameter(map(int, os.environ.get("HPCAI_RANKS", "2").split(",")))
    input_file = variable(str, value=os.environ.get("HPCAI_INPUT", str(HERE / "small.dat")))
    python = variable(str, value=own_python())
    descr = "HPCAI benchmark: verified training"
    valid_systems = ["*"]  # noqa: RUF012, ReFrame wants lists
    valid_prog_environs = ["*"]  # noqa: RUF012
    sourcesdir = None
    reference = references()

    @run_before("run")
    def set_command(self):
        """The run, and the verification of what it left; a checkout's program, or the installed one."""
        script = CHECKOUT / "bench.py"
        program = [self.python, str(script)] if script.exists() else [str(Path(self.python).with_name("hpcai-bench"))]
        self.num_tasks = self.ranks
        self.executable, *options = program
        self.executable_opts = [*options, str(Path(self.input_file).resolve())]
        own = Path(self.python).parent  # of a virtual environment, whose mpirun belongs to its mpi4py
        self.prerun_cmds = [f"export PATH={own}:$PATH"] if (own / "mpirun").exists() else []
        self.postrun_cmds = ["code=$?", f"{' '.join(program)} --verify results/*", 'echo "exit code $code"']

    @sanity_function
    def passes_and_is_sound(self):
        """The whole report, no FAILED in it, exit code 0, and a sound result."""
        return sn.all(
            [
                sn.assert_found(r"^End of Tests\.$", self.stdout, "the report has no end"),
                sn.assert_not_found(r"\bFAILED\b", self.stdout, "a check of the benchmark FAILED"),
                sn.assert_found(r"^exit code 0$", self.stdout, "the benchmark did not exit with 0"),
                sn.assert_found(SOUND, self.stdout, "the result is not sound"),
                sn.assert_not_found("NOT VERIFIED", self.stdout, "the result is not sound"),
            ]
        )

    @run_before("performance")
    def set_figures(self):
        """The figures that the summary has."""
        report = (Path(self.stagedir) / str(self.stdout)).read_text(encoding="utf-8")
        self.perf_variables = {
            name: sn.make_performance_function(self.figure(name), unit)
            for name, unit in FIGURES.items()
            if f"\n{name}=" in report
        }

    @sn.deferrable
    def figure(self, name):
        """A figure of the summary section."""
        return sn.extractsingle(rf"^{name}=(\S+)$", self.stdout, 1, float)

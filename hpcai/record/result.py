"""The record of a whole result, as result.json holds it."""

from typing import Annotated, Any, Literal

from hpcai.record.entry import Row, Table
from hpcai.record.machine import Environment, Rank
from hpcai.record.problem import Input
from hpcai.record.record import Count, Level, Name, Positive, Record, Sha256, Status, Utc, about
from hpcai.workloads.comm.record import CollectiveRow
from hpcai.workloads.kernels.record import KernelCeilings, KernelRow

SCHEMA: Literal["hpcai-result/5"] = "hpcai-result/5"


class BrokenOff(Record, kw_only=True):
    """The test in which a run was broken off; it is never ranked."""

    index: Annotated[Positive, about("number of the test")]
    workload: Annotated[Name, about("the section of the input")]
    tv: Annotated[Name | None, about("T/V; null for tests without a row")]
    cause: Annotated[Name, about("signal to a rank, or the time limit")]
    n: Annotated[Count, about("training samples credited until then")]
    gflops: Annotated[float | None, about("credited training operations / seconds / 10^9", unit="GFLOP/s")]
    raw: Annotated[Any, about("what was measured until then; null where nothing was")]


class Resumption(Record, kw_only=True):
    """A job that went on with a run that was broken off."""

    date: Annotated[Utc, about("when it went on, UTC")]
    test: Annotated[Positive, about("the first test that had not ended")]
    differing: Annotated[
        tuple[Name, ...], about("machine and software that differ from those of the run's first job; a line each")
    ]


class Spread(Record, kw_only=True):
    """Statistics of a quantity over repetitions (HPC AI500 V3, Fig. 2)."""

    count: Annotated[Count, about("tests with a value")]
    mean: Annotated[float, about("mean")]
    median: Annotated[float, about("median")]
    min: Annotated[float, about("minimum")]
    max: Annotated[float, about("maximum")]
    cv: Annotated[float | None, about("sample standard deviation / mean")]


class Repeatability(Record, kw_only=True):
    """Repetitions of a test with different seeds."""

    tests: Annotated[tuple[Count, ...], about("numbers of the repeated tests")]
    spreads: Annotated[dict[str, Spread | None], about("statistics by quantity; null where no test has it")]


class Best(Record, kw_only=True):
    """The row that a result is ranked by, of one workload."""

    workload: Annotated[Name, about("the section of the input")]
    index: Annotated[Positive, about("number of the test")]
    gflops: Annotated[float, about("Gflops of the row", unit="GFLOP/s")]
    figures: Annotated[dict[str, float], about("figures that the workload is ranked by")]
    quality: Annotated[float, about("quality of the row")]
    target: Annotated[float, about("quality target")]
    P: Annotated[Positive, about("P: groups")]
    Q: Annotated[Positive, about("Q: ranks of a group")]
    time: Annotated[float, about("Time of the row", unit="s")]


class RunCeilings(KernelCeilings, kw_only=True):
    """The highest ceilings of a rank in the tables of a run that PASSED; null where none was measured."""

    all_reduce_bus: Annotated[float | None, about("bus bandwidth of an all-reduce", unit="B/s")]


class Summary(Record, kw_only=True):
    """The end of a result."""

    complete: Annotated[bool, about("whether every test ended")]
    planned: Annotated[Count, about("tests that the input asks for")]
    tests: Annotated[Count, about("tests that ended")]
    passed: Annotated[Count, about("tests that PASSED")]
    failed: Annotated[Count, about("tests that FAILED")]
    skipped: Annotated[Count, about("tests skipped because of illegal input: always 0, such input is refused")]
    valid: Annotated[Status, about("VALID, UNOFFICIAL or INVALID: the worst of all tests")]
    reasons: Annotated[tuple[str, ...], about("why it is not VALID")]
    best: Annotated[tuple[Best, ...], about("best row of each workload; the first one ranks the result")]
    ceilings: Annotated[RunCeilings, about("highest ceilings of a rank")]
    repeatability: Annotated[tuple[Repeatability, ...], about("repeated tests")]
    level: Annotated[Level, about("level that the input claims")] = "free"
    fingerprint: Annotated[Sha256, about("SHA-256 of all other parts of the result")]


class Result(Record, kw_only=True):
    """A run: its input, machine, tests and summary."""

    schema: Annotated[Literal["hpcai-result/5"], about("name of this layout")] = SCHEMA
    version: Annotated[Name, about("version of the program")]
    date: Annotated[Utc, about("start of the run, UTC")]
    input: Annotated[Input, about("the input")]
    environment: Annotated[Environment, about("machine and software")]
    ranks: Annotated[tuple[Rank, ...], about("ranks of the job; of many, the first ones")]
    tests: Annotated[tuple[Row, ...], about("tests with a row of HPL")] = ()
    tables: Annotated[tuple[Table, ...], about("tests with a table")] = ()
    kernels: Annotated[tuple[KernelRow, ...], about("rows of the tables of [kernels]")] = ()
    collectives: Annotated[tuple[CollectiveRow, ...], about("rows of the tables of [comm]")] = ()
    resumed: Annotated[tuple[Resumption, ...], about("jobs that went on with the run; the first job began it")] = ()
    broken_off: Annotated[BrokenOff | None, about("the test in which the run was broken off")] = None
    unverified: Annotated[
        tuple[str, ...], about("differences that the run found when it verified its own files; empty of a sound result")
    ] = ()
    summary: Annotated[Summary | None, about("summary of the run")] = None
    digest: Annotated[Sha256 | None, about("SHA-256 of the result without this field")] = None

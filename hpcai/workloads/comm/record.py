"""Records of `[comm]`: collectives as measured, with the bandwidths and models that follow from them."""

from typing import Annotated, Literal

from hpcai.record.entry import Table
from hpcai.record.record import Count, Name, Positive, Record, Seconds, Verdict, about

CollectiveName = Literal["all_reduce", "reduce_scatter", "all_gather", "broadcast"]
Scope = Literal["world", "group", "across", "node", "between"]
By = Literal["gloo", "nccl", "mpi"]


class MeasuredCollective(Record, kw_only=True):
    """One collective of one size over the communicators of a scope."""

    collective: Annotated[CollectiveName, about("the collective")]
    scope: Annotated[Scope, about("which ranks form a communicator")]
    by: Annotated[By, about("MPI, or the backend that trains")]
    ranks: Annotated[Positive, about("ranks of a communicator")]
    nbytes: Annotated[Positive, about("size as nccl-tests define it", unit="B")]
    count: Annotated[Positive, about("elements as nccl-tests define them")]
    type: Annotated[Literal["float"], about("type of the elements")]
    redop: Annotated[Literal["sum", "none"], about("reduction")]
    root: Annotated[Literal[-1, 0], about("root of a broadcast, else -1")]
    seconds: Annotated[Seconds, about("time of one call of the slowest rank", unit="s")]
    iterations: Annotated[Positive, about("calls that were timed")]
    wrong: Annotated[Count, about("wrong elements of all ranks, before and after the timed calls")]


class SkippedCollective(Record, kw_only=True):
    """A scope that was not measured; or of a scope a collective that a backend lacks; or a size that is too small."""

    scope: Annotated[Scope, about("the scope")]
    why: Annotated[Name, about("the reason")]
    by: Annotated[By | None, about("the backend")] = None
    collective: Annotated[CollectiveName | None, about("the collective")] = None
    nbytes: Annotated[Positive | None, about("the size", unit="B")] = None


class CommRaw(Record, kw_only=True):
    """Raw measurements of `[comm]`."""

    rows: Annotated[tuple[MeasuredCollective, ...], about("what was measured")]
    skipped: Annotated[tuple[SkippedCollective, ...], about("what was not measured")]


class CollectiveRow(MeasuredCollective, kw_only=True):
    """A measured collective with its bandwidths; a line of collectives.csv."""

    test: Annotated[Positive, about("number of the test")]
    algbw: Annotated[float, about("nbytes / seconds", unit="B/s")]
    busbw: Annotated[float, about("algbw x the factor of the collective (nccl-tests, PERFORMANCE.md)", unit="B/s")]
    verdict: Annotated[Verdict, about("PASSED if no element is wrong")]


class Fit(Record, kw_only=True):
    """Latency and bandwidth that fit the sizes of a collective: seconds = alpha + beta x nbytes (Hockney 1994)."""

    collective: Annotated[CollectiveName, about("the collective")]
    scope: Annotated[Scope, about("the scope")]
    by: Annotated[By, about("MPI, or the backend that trains")]
    alpha: Annotated[float | None, about("latency; null where fewer than two sizes PASSED", unit="s")]
    beta: Annotated[float | None, about("time of one more byte", unit="s/B")]
    error: Annotated[float | None, about("largest relative error of the model")]


class CommTable(Table, kw_only=True):
    """A test of `[comm]`."""

    workload: Literal["comm"] = "comm"
    raw: Annotated[CommRaw, about("raw measurements")]
    fits: Annotated[tuple[Fit, ...], about("models of the measured times")]

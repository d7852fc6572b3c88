"""Records of `[comm]`: collectives as measured, with the bandwidths and models that follow from them."""

from typing import Annotated, Literal

from msgspec import Meta

from hpcai.formulas.collectives import LEAST_ITERATIONS, BackendName, CollectiveName, ScopeName
from hpcai.record.entry import Table
from hpcai.record.record import Count, Name, Positive, PositiveSeconds, Record, Verdict, about


class MeasuredCollective(Record, kw_only=True):
    """One collective of one size over the communicators of a scope."""

    collective: Annotated[CollectiveName, about("collective")]
    scope: Annotated[ScopeName, about("scope: which ranks form a communicator")]
    by: Annotated[BackendName, about("mpi, or the backend that trains")]
    ranks: Annotated[Positive, about("ranks of a communicator")]
    nbytes: Annotated[Positive, about("size as nccl-tests define it", unit="B")]
    count: Annotated[Positive, about("elements as nccl-tests define them")]
    seconds: Annotated[PositiveSeconds, about("time of one call of the slowest rank", unit="s")]
    iterations: Annotated[int, Meta(ge=LEAST_ITERATIONS), about("calls that were timed")]
    wrong: Annotated[Count, about("wrong elements of all ranks, over all calls")]
    second_clock: Annotated[
        PositiveSeconds | None,
        about("the same by a second clock; null of nccl, which works after the calls, and in older results", unit="s"),
    ] = None


class SkippedScope(Record, kw_only=True):
    """A scope that was not measured."""

    scope: Annotated[ScopeName, about("scope")]
    why: Annotated[Name, about("reason")]


class UnsupportedCollective(Record, kw_only=True):
    """A collective that a backend lacks."""

    scope: Annotated[ScopeName, about("scope")]
    by: Annotated[BackendName, about("backend")]
    collective: Annotated[CollectiveName, about("collective")]
    why: Annotated[Name, about("the reason, as the backend states it")]


class TooSmallCollective(Record, kw_only=True):
    """A size of which each rank has less than one element."""

    scope: Annotated[ScopeName, about("scope")]
    by: Annotated[BackendName, about("mpi, or the backend that trains")]
    collective: Annotated[CollectiveName, about("collective")]
    nbytes: Annotated[Positive, about("size", unit="B")]


class CommRaw(Record, kw_only=True):
    """Raw measurements of `[comm]`."""

    rows: Annotated[tuple[MeasuredCollective, ...], about("collectives measured")]
    skipped: Annotated[tuple[SkippedScope, ...], about("scopes that were not measured")]
    unsupported: Annotated[tuple[UnsupportedCollective, ...], about("collectives that a backend lacks")]
    too_small: Annotated[tuple[TooSmallCollective, ...], about("sizes of less than one element for each rank")]


class CollectiveRow(MeasuredCollective, kw_only=True):
    """A measured collective with its bandwidths; a line of collectives.csv."""

    test: Annotated[Positive, about("number of the test")]
    type: Annotated[Literal["float"], about("type of the elements")]
    redop: Annotated[Literal["sum", "none"], about("reduction")]
    root: Annotated[Literal[-1, 0], about("root of a broadcast, else -1")]
    algbw: Annotated[float, about("nbytes / seconds", unit="B/s")]
    busbw: Annotated[float, about("algbw x factor of the collective (nccl-tests, PERFORMANCE.md)", unit="B/s")]
    verdict: Annotated[Verdict, about("PASSED if no element is wrong, and two clocks agree")]


class Fit(Record, kw_only=True):
    """Latency and bandwidth that fit the sizes of a collective: seconds = alpha + beta x nbytes (Hockney 1994)."""

    collective: Annotated[CollectiveName, about("collective")]
    scope: Annotated[ScopeName, about("scope")]
    by: Annotated[BackendName, about("mpi, or the backend that trains")]
    alpha: Annotated[float | None, about("latency alpha; null where fewer than two sizes PASSED", unit="s")]
    beta: Annotated[float | None, about("time per byte beta", unit="s/B")]
    error: Annotated[float | None, about("largest relative error of alpha + beta x nbytes")]


class CommTable(Table, kw_only=True):
    """A test of `[comm]`."""

    workload: Literal["comm"] = "comm"
    raw: Annotated[CommRaw, about("raw measurements")]
    fits: Annotated[tuple[Fit, ...], about("models of the measured times")]


ENTRY = CommTable
STOPPED = None

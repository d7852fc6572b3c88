"""Records of a test in a result: case, measurements, verdict; with more fields for HPL's rows."""

from typing import Annotated, Any

from msgspec import Meta

from hpcai.record.machine import Memory, Telemetry
from hpcai.record.record import END, Count, Name, Positive, Record, Setting, Status, Verdict, about, fields
from hpcai.record.wall_time import WallTime

ROW_TYPE = f"^W[RC][0-9]{{2}}[A-Z][0-9][A-Z][0-9]{END}"


class Check(Record, kw_only=True):
    """One check of a test: value, limit and verdict."""

    name: Annotated[str, about("printed name")]
    value: Annotated[float | None, about("measured value; null where nothing can be checked")]
    limit: Annotated[float, about("largest value that passes; the disagreement has to exceed it")]
    verdict: Annotated[Verdict, about("PASSED, FAILED or NOT CHECKED")]


class Operations(Record, kw_only=True):
    """Operations of a test by the rule of the headline."""

    rule: Annotated[Name, about("rule of counting")]
    per_sample: Annotated[Count, about("operations of a training sample, forward and backward", unit="FLOP")]
    credited: Annotated[Count, about("operations of all steps that changed the weights", unit="FLOP")]
    skipped: Annotated[Count, about("operations of steps skipped because a gradient overflowed", unit="FLOP")]
    executed: Annotated[Count, about("operations counted while the layers ran", unit="FLOP")]


class Entry(Record, kw_only=True):
    """A complete test: `workload` is the section's name, `raw` its workload's measurements."""

    index: Annotated[Positive, about("number of the test, from 1, in the order of the input")]
    workload: Annotated[Name, about("section of the input")]
    settings: Annotated[dict[str, Setting], about("value of every KEY in this test")]
    memory: Annotated[Memory, about("memory of the rank that used most")]
    telemetry: Annotated[Telemetry | None, about("utilisation of the nodes during the test; null with TELEMETRY 0")]
    wall: Annotated[WallTime | None, about("time of the whole test by two clocks; null in older results")] = None
    raw: Annotated[Any, about("raw measurements: all other numbers follow from them")]
    verdict: Annotated[Verdict, about("PASSED if no check is FAILED")]


class Row(Entry, kw_only=True):
    """A test with a row in HPL's layout."""

    tv: Annotated[str, Meta(pattern=ROW_TYPE), about("T/V: eight characters that say how the row was made")]
    n: Annotated[Count, about("N: training samples credited over all groups in the timed region")]
    nb: Annotated[Positive, about("NB: training samples per rank and step; of a search, of the initial network")]
    p: Annotated[Positive, about("P: groups, each of which trains one model or the trials of a search")]
    q: Annotated[Positive, about("Q: ranks of a group")]
    seconds: Annotated[float, about("Time: training time of the slowest rank, validations excluded", unit="s")]
    gflops: Annotated[float, about("Gflops: operations.credited / seconds / 10^9 (V3, Eq. 6)", unit="GFLOP/s")]
    operations: Annotated[Operations, about("operations of the test, rule model")]
    checks: Annotated[tuple[Check, ...], about("checks in printed order")]
    scores: Annotated[Any, about("scores of the test")]
    status: Annotated[Status, about("VALID, UNOFFICIAL or INVALID")]
    reasons: Annotated[tuple[str, ...], about("why the status is not VALID")]


class Table(Entry, kw_only=True):
    """A test with a table instead of a row; its rows are a list of the result."""


def scores_of(kind: type[Row]) -> type[Record]:
    """The record of the scores of a workload's rows."""
    found = next((each.record for each in fields(kind) if each.name == "scores"), None)
    assert found is not None, "the scores of a row are a record"
    return found

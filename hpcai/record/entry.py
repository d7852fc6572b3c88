"""What every test of a run is in a result: its case, what was measured, and its verdict; rows of HPL have more."""

from typing import Annotated, Any

from msgspec import Meta

from hpcai.record.machine import Memory, Telemetry
from hpcai.record.record import END, Count, Name, Positive, Record, Setting, Status, Verdict, about

ROW_TYPE = f"^W[RC][0-9]{{2}}[A-Z][0-9][A-Z][0-9]{END}"


class Check(Record, kw_only=True):
    """One check of a test: what was measured, held against its limit."""

    name: Annotated[str, about("the printed name")]
    value: Annotated[float | None, about("what was measured; null where nothing could be checked")]
    limit: Annotated[float, about("the largest value that passes; of the disagreement, the value that fails")]
    verdict: Annotated[Verdict, about("PASSED, FAILED or NOT CHECKED")]


class Operations(Record, kw_only=True):
    """Operations of a test by the rule of the headline."""

    rule: Annotated[Name, about("the rule of counting")]
    per_sample: Annotated[Count, about("of one training sample, forward and backward", unit="FLOP")]
    credited: Annotated[Count, about("of the samples of all steps that changed the weights", unit="FLOP")]
    skipped: Annotated[Count, about("of steps that were skipped because a gradient overflowed", unit="FLOP")]
    executed: Annotated[Count, about("as the layers' hooks counted them while they ran", unit="FLOP")]


class Entry(Record, kw_only=True):
    """A test that has ended: `workload` is the section's name, `raw` what its workload measured."""

    index: Annotated[Positive, about("number of the test, from 1, in the order of the input", csv=True)]
    workload: Annotated[Name, about("the section of the input", csv=True)]
    settings: Annotated[dict[str, Setting], about("the value of every KEY in this test")]
    memory: Annotated[Memory, about("memory of the rank that used most")]
    telemetry: Annotated[Telemetry | None, about("what the nodes did meanwhile; null where nothing was sampled")]
    raw: Annotated[Any, about("raw measurements, from which all other numbers follow")]
    verdict: Annotated[Verdict, about("PASSED if no check is FAILED", csv=True)]


class Row(Entry, kw_only=True):
    """A test with a row in HPL's layout."""

    tv: Annotated[str, Meta(pattern=ROW_TYPE), about("T/V, eight characters: how the row was made", csv=True)]
    n: Annotated[Count, about("training samples credited over all groups in the timed region", csv=True)]
    nb: Annotated[Positive, about("training samples per rank and step; of a search the initial ones", csv=True)]
    p: Annotated[Positive, about("groups: models trained at once, or workers of a search", csv=True)]
    q: Annotated[Positive, about("ranks of a group", csv=True)]
    seconds: Annotated[float, about("training time of the slowest rank, validation excepted", unit="s", csv=True)]
    gflops: Annotated[float, about("credited training operations / seconds, in 10^9", unit="GFLOP/s", csv=True)]
    operations: Annotated[Operations, about("operations by rule model")]
    checks: Annotated[tuple[Check, ...], about("checks in the order in which they are printed")]
    scores: Annotated[Any, about("scores of the test")]
    status: Annotated[Status, about("VALID, UNOFFICIAL or INVALID", csv=True)]
    reasons: Annotated[tuple[str, ...], about("why the status is not VALID")]


class Table(Entry, kw_only=True):
    """A test that makes a table and no row; its rows stand in a list of the result."""

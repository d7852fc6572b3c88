"""Table of `[comm]` from measured collectives: bandwidths, verdicts, latency-bandwidth models."""

from collections.abc import Iterable, Sequence

from hpcai.formulas.clocks import CallTime
from hpcai.formulas.collectives import COLLECTIVES, TYPE, LinearModel, linear_model
from hpcai.inputfile import Case
from hpcai.record.record import Verdict
from hpcai.results.measured import Before, Measured
from hpcai.results.table import calls_agree, table
from hpcai.workloads.comm.record import CollectiveRow, CommRaw, CommTable, Fit, MeasuredCollective

PASSED: Verdict = "PASSED"
Block = tuple[str, str, str]  # collective, scope and backend of a printed block


def build(case: Case, measured: Measured, before: Before) -> CommTable:
    """The table of a complete test."""
    found = rows(case, measured.raw)
    return table(CommTable, case, measured, verdict(found), fits=fits(found))


def rows(case: Case, raw: CommRaw) -> tuple[CollectiveRow, ...]:
    """The measured rows with bandwidths and verdicts, in order."""
    agree = calls_agree(times(raw.rows))
    return tuple(_row(case.index, measured, agree) for measured in raw.rows)


def times(rows: Sequence[MeasuredCollective]) -> list[CallTime]:
    """Seconds of the calls by two clocks, where there are two."""
    return [CallTime(row.seconds, row.second_clock, row.iterations) for row in rows if row.second_clock is not None]


def _row(test: int, measured: MeasuredCollective, agree: bool) -> CollectiveRow:
    kind, rate = COLLECTIVES[measured.collective], measured.nbytes / measured.seconds
    return CollectiveRow(
        test=test,
        collective=measured.collective,
        scope=measured.scope,
        by=measured.by,
        ranks=measured.ranks,
        nbytes=measured.nbytes,
        count=measured.count,
        seconds=measured.seconds,
        iterations=measured.iterations,
        wrong=measured.wrong,
        second_clock=measured.second_clock,
        type=TYPE,
        redop=kind.redop,
        root=kind.root,
        algbw=rate,
        busbw=rate * kind.factor(measured.ranks),
        verdict=PASSED if agree and measured.wrong == 0 else "FAILED",
    )


def verdict(found: Iterable[CollectiveRow]) -> Verdict:
    """FAILED if any row is; PASSED without rows, where all scopes were skipped."""
    return PASSED if all(row.verdict == PASSED for row in found) else "FAILED"


def blocks(found: Iterable[CollectiveRow]) -> dict[Block, list[CollectiveRow]]:
    """The rows by collective, scope and backend, in their order."""
    together: dict[Block, list[CollectiveRow]] = {}
    for row in found:
        together.setdefault((row.collective, row.scope, row.by), []).append(row)
    return together


def average_busbw(found: Sequence[CollectiveRow]) -> float:
    """Mean of the bus bandwidths over all sizes, as nccl-tests print it; bytes/s."""
    return sum(row.busbw for row in found) / len(found)


def fits(found: Iterable[CollectiveRow]) -> tuple[Fit, ...]:
    """Latency-bandwidth models of the blocks, from rows that PASSED."""
    return tuple(_fit(block[0], _model(block)) for block in blocks(found).values())


def _model(block: Sequence[CollectiveRow]) -> LinearModel | None:
    return linear_model([(row.nbytes, row.seconds) for row in block if row.verdict == PASSED])


def _fit(row: CollectiveRow, model: LinearModel | None) -> Fit:
    alpha, beta, error = model or (None, None, None)
    return Fit(collective=row.collective, scope=row.scope, by=row.by, alpha=alpha, beta=beta, error=error)

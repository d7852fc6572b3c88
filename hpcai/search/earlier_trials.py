"""The trials of a search that earlier jobs have left, read from its journal: what a resumed search goes on from.

A trial counts if its line in the journal is whole, what was kept beside the journal is there, it was not cut by the
end of a job, and its parent and the trials of its group before it count. The others are trained anew.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from hpcai.errors import DataError
from hpcai.formulas.learning_curve import value
from hpcai.machine import appended_lines
from hpcai.networks.morphism import Morphism
from hpcai.record.trial import COMPLETED, Trial
from hpcai.search import journal, kept_trials
from hpcai.search.kept_trials import KeptTrial
from hpcai.search.messages import FinishedTrial, Result
from hpcai.search.paths import JOURNAL

CUT = "time"  # the end of a trial that the end of the search or of a job cut


@dataclass(frozen=True)
class EarlierTrials:
    """Trials in the order in which they returned; what was kept of each, and their lines in the journal."""

    trials: Sequence[Trial] = ()
    kept: Sequence[KeptTrial] = ()
    lines: Sequence[bytes] = ()


def finished(trial: Trial, chain: tuple[Morphism, ...], epochs: int) -> FinishedTrial:
    """A trial as other leaders learn of it; `chain` leads to its network. epochs: EPOCHS of the input."""
    return FinishedTrial(
        id=trial.id,
        round=trial.round,
        value=value(trial, epochs),
        accuracy=trial.accuracy,
        parent=trial.end in COMPLETED,
        chain=chain,
        hyperparameters=trial.hyperparameters,
    )


def result(trial: Trial, told: FinishedTrial) -> Result:
    """The message that a trial has ended."""
    return Result(trial.worker, trial.id, trial.round, told.value, told.parent, trial.end == CUT)


def returned(trials: Iterable[Trial], epochs: int) -> Iterator[tuple[Trial, FinishedTrial]]:
    """Trials, a parent before its descendants, and what other leaders learn of each."""
    chains: dict[int | None, tuple[Morphism, ...]] = {None: ()}
    for trial in trials:
        chains[trial.id] = chains[trial.parent] + trial.morphisms
        yield trial, finished(trial, chains[trial.id], epochs)


def read(folder: Path, kept_file: Path, duration: float) -> EarlierTrials:
    """The trials that count, of the folder of a search; the files then have no others.

    duration: DURATION of the input, 0 for none. What does not count is told on stderr. DataError names what is damaged
    but the last line, which a kill may tear.
    """
    path = folder / JOURNAL
    if not path.exists():
        return EarlierTrials()
    lines, torn = appended_lines.lines_of(path)
    kept, kept_torn = kept_trials.read(kept_file)
    reasons = {"the last line of the journal is torn": [len(lines) + 1]} if torn else {}
    chosen = [*_counting(path, lines, kept, duration, reasons)]
    for reason, numbers in reasons.items():
        what = "its trial is" if torn and reason.startswith("the last") else _named(numbers)
        print(f"hpcai: {folder.name}: {reason}: {what} trained anew", file=sys.stderr, flush=True)
    found = EarlierTrials(*map(tuple, zip(*chosen, strict=True))) if chosen else EarlierTrials()
    if torn or len(found.lines) < len(lines):
        journal.replace(path, found.lines)
    if kept_torn:
        journal.replace(kept_file, [text for text, _ in kept.values()])
    return found


def _named(trials: Sequence[int]) -> str:
    return f"trial {trials[0]} is" if len(trials) == 1 else f"{len(trials)} trials, the first of them {trials[0]}, are"


def _counting(
    path: Path,
    lines: Sequence[bytes],
    kept: Mapping[int, tuple[bytes, KeptTrial]],
    duration: float,
    reasons: dict[str, list[int]],
) -> Iterator[tuple[Trial, KeptTrial, bytes]]:
    """The trials that count; the numbers of the others are added by the reason."""
    known: set[int | None] = {None}
    rounds: dict[int, int] = {}
    for number, text in enumerate(lines, start=1):
        trial = journal.decode_line(path, number, text)
        beside = kept.get(trial.id, (b"", None))[1]
        reason = _left_out(trial, beside, duration)
        if not reason and (trial.round != rounds.get(trial.worker, 0) + 1 or trial.parent not in known):
            reason = "an earlier trial is missing"
        if reason or beside is None:
            reasons.setdefault(reason, []).append(trial.id)
            continue
        if sha256(text).hexdigest() != beside.sha256:
            raise DataError(f"{path}, line {number}: not the line that the search wrote of trial {trial.id}")
        known.add(trial.id)
        rounds[trial.worker] = trial.round
        yield trial, beside, text


def _left_out(trial: Trial, beside: KeptTrial | None, duration: float) -> str:
    """Why a trial does not count; empty if it does."""
    if trial.end == CUT and not 0 < duration <= trial.returned:
        return "cut by the end of the job"
    return "" if beside else "what was measured beside the journal is missing"

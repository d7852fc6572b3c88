"""Printed table of the trials of a search."""

from collections.abc import Iterator, Sequence

from hpcai.record.trial import Trial
from hpcai.workloads.nas.record import SearchRow, TrialRow

MOST, BEST = 40, 20  # largest number of printed trials: the best and the newest
HEAD = (
    f"{'Trial':>7} {'Group':>6} {'Round':>6} {'Parent':>7} {'operation':<9} {'NB':>6} {'kernel':>6} {'epochs':>8} "
    f"{'accuracy':>10} {'10^9 op.':>14} {'started':>12} {'returned':>12}  end"
)


def trial_table(test: SearchRow) -> Iterator[str]:
    """A line per trial; of more than 40 the best 20 and the newest 20 of the others."""
    shown = _shown(test.trials)
    others = len(test.trials) - len(shown)
    yield "Trials" + (f": the best {BEST} and the newest others, {others} more in trials.csv" if others else "")
    yield HEAD
    raw = {trial.id: trial for trial in test.raw.trials}
    yield from (_line(trial, raw[trial.id]) for trial in shown)


def _shown(trials: Sequence[TrialRow]) -> list[TrialRow]:
    if len(trials) <= MOST:
        return list(trials)
    places = sorted(range(len(trials)), key=lambda place: -trials[place].accuracy)
    best = places[:BEST]
    newest = sorted(places[BEST:], key=lambda place: trials[place].returned)[BEST - MOST :]
    return [trials[place] for place in sorted({*best, *newest})]


def _line(trial: TrialRow, raw: Trial) -> str:
    parent = "-" if trial.parent is None else trial.parent
    epochs = f"{len(raw.curve)}/{raw.planned_epochs}"
    validated = any(entry.correct is not None for entry in raw.curve)
    accuracy = f"{trial.accuracy:.6f}" if validated else "-"
    return (
        f"{trial.id:>7} {trial.worker:>6} {trial.round:>6} {parent:>7} {trial.operation:<9} "
        f"{trial.hyperparameters.batch:>6} {trial.hyperparameters.kernel:>6} {epochs:>8} {accuracy:>10} "
        f"{trial.ops / 1e9:14.4f} {trial.started:12.3f} {trial.returned:12.3f}  {trial.verdict}"
    )

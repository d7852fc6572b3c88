"""The trials of a search: as a printed table, and as the lines of trials.csv."""

from collections.abc import Iterator, Sequence
from typing import Any

Json = dict[str, Any]

MOST, BEST = 40, 20  # trials that are printed: if there are more, the best of them, and the newest others
HEAD = (
    f"{'Trial':>7} {'Group':>6} {'Round':>6} {'Parent':>7} {'operation':<9} {'NB':>6} {'kernel':>6} {'epochs':>8} "
    f"{'accuracy':>10} {'10^9 op.':>14} {'started':>12} {'returned':>12}  end"
)


def table(test: Json) -> Iterator[str]:
    """A line per trial; of more than 40 the best 20 and the newest 20 of the others."""
    shown = _shown(test["trials"])
    others = len(test["trials"]) - len(shown)
    yield "Trials" + (f": the best {BEST} and the newest others, {others} more in trials.csv" if others else "")
    yield HEAD
    raw = {trial["id"]: trial for trial in test["raw"]["trials"]}
    for trial in shown:
        yield _line(trial, raw[trial["id"]])


def _shown(trials: Sequence[Json]) -> list[Json]:
    if len(trials) <= MOST:
        return list(trials)
    places = sorted(range(len(trials)), key=lambda place: -trials[place]["accuracy"])
    best = places[:BEST]
    newest = sorted(places[BEST:], key=lambda place: trials[place]["returned"])[BEST - MOST :]
    return [trials[place] for place in sorted({*best, *newest})]


def _line(trial: Json, raw: Json) -> str:
    parent = "-" if trial["parent"] is None else trial["parent"]
    chosen = trial["hyperparameters"]
    epochs = f"{len(raw['curve'])}/{raw['planned_epochs']}"
    judged = any(entry["correct"] is not None for entry in raw["curve"])
    accuracy = f"{trial['accuracy']:.6f}" if judged else "-"
    return (
        f"{trial['id']:>7} {trial['worker']:>6} {trial['round']:>6} {parent:>7} {trial['operation']:<9} "
        f"{chosen['batch']:>6} {chosen['kernel']:>6} {epochs:>8} {accuracy:>10} {trial['ops'] / 1e9:14.4f} "
        f"{trial['started']:12.3f} {trial['returned']:12.3f}  {trial['verdict']}"
    )


def cells(tests: Sequence[Json]) -> list[Json]:
    """The trials of all searches, with the number of their test, hyper-parameters one by one."""
    return [
        {"test": test["index"], **{name: value for part in trial.items() for name, value in _flat(*part)}}
        for test in tests
        for trial in test.get("trials", [])
    ]


def _flat(name: str, value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, dict) else [(name, value)]

"""The KEYs that only `[nas]` has."""

from typing import Any

from hpcai.inputfile.key import Key


def _limit(name: str, help: str, high: int = 2**31 - 1, **rest: Any) -> Key:
    return Key(name=name, kind="integer", help=help, low=1, high=high, zero="no limit", **{"default": 0, **rest})


KEYS = (
    _limit("TRIALS", "number of trials after which a search ends"),
    _limit("ROUNDS", "number of trials of each group after which a search ends"),
    Key(
        name="DURATION",
        kind="real",
        help="seconds after which a search ends",
        low=0,
        bounds="(]",
        zero="no limit",
        default=3600.0,
    ),
    Key(
        name="WINDOW",
        kind="real",
        help="a search ends when its score changes by less than 1 % within this many seconds",
        low=0,
        bounds="(]",
        zero="never",
        default=0.0,
    ),
    Key(
        name="INTERVAL",
        kind="real",
        help="seconds between two points of the score over time",
        low=0,
        bounds="(]",
        zero="a 50th of the search, at most 360",
        default=0.0,
        sweep=False,
    ),
    Key(
        name="PATIENCE",
        kind="integer",
        help="most epochs of a trial without a smaller validation loss",
        low=1,
        high=2**31 - 1,
        default=20,
    ),
    _limit("DEPTH", "most convolutions of a network", default=200),
    _limit("PARAMETERS", "most parameters of a network", high=2**40, suffixed=True),
    Key(
        name="STRATEGY",
        kind="choice",
        help="how the next network is chosen",
        choices=("bayes", "random"),
        default="bayes",
    ),
    Key(
        name="INITIAL",
        kind="choice",
        help="initial weights of a trial",
        choices=("inherited", "fresh"),
        default="inherited",
    ),
    Key(
        name="REPLAY",
        kind="dataset",
        help="results that a proposal uses: all so far; those of earlier rounds (runs then repeat); a recorded search",
        choices=("off", "rounds", "file:PATH"),
        default="off",
        sweep=False,
    ),
    Key(
        name="LAG",
        kind="integer",
        help="rounds between a result and its first use with REPLAY rounds",
        low=1,
        high=1000,
        default=1,
        sweep=False,
    ),
)

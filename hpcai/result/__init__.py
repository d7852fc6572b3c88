"""From raw measurements to what is reported: every derived number is made here, from the input and the raw numbers.

The run uses these functions once, and `--verify` uses them again on a stored result; so they are pure, and what they
return is plain JSON.
"""

from typing import Any

from hpcai.result.broken import broken_off
from hpcai.result.checks import at_most
from hpcai.result.entry import EMPTY, ended, enter
from hpcai.result.judge import judge, tv
from hpcai.result.summary import digest, sealed
from hpcai.result.tables import TABLES, rows_of

Json = dict[str, Any]

SCHEMA = "hpcai-result/2"

__all__ = [
    "EMPTY",
    "SCHEMA",
    "TABLES",
    "Json",
    "at_most",
    "broken_off",
    "digest",
    "ended",
    "enter",
    "judge",
    "rows_of",
    "sealed",
    "tv",
]

"""Messages between the group leaders and the coordinator of a search: one line of JSON, and lines that are passed on.

The coordinator does not parse lines that it only passes on or writes to the journal: with 12,500 workers that would
take too long.
"""

import json
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from hpcai.networks.morphism import Morphism
from hpcai.record.trial import Hyperparameters


class Ask(Struct, frozen=True, tag="ask", tag_field="kind"):
    """A leader asks for the trials that returned after the first `since`, to choose its trial of a round."""

    worker: int
    round: int
    since: int


class Claim(Struct, frozen=True, tag="claim", tag_field="kind"):
    """A leader asks for a trial of one of these networks, given by their digests, the best first."""

    worker: int
    round: int
    networks: tuple[str, ...]


class Result(Struct, frozen=True, tag="result", tag_field="kind"):
    """A trial has ended; three lines go with it: the FinishedTrial, the journal's line, and the GroupTrial.

    `cut`: whether the end of the search, or of the job, cut it.
    """

    worker: int
    id: int
    round: int
    value: float
    parent: bool
    cut: bool = False


class Forgo(Struct, frozen=True, tag="forgo", tag_field="kind"):
    """A leader gives a granted trial back without having run it."""

    worker: int
    id: int


class Retire(Struct, frozen=True, tag="retire", tag_field="kind"):
    """A group leaves the search."""

    worker: int


class FinishedTrial(Struct, frozen=True):
    """A trial that returned, as other leaders learn of it; `chain` leads to its network from the initial one.

    `value` is what the search ranks by, `accuracy` the best validation accuracy; `parent`: whether it can be a parent.
    """

    id: int
    round: int
    value: float
    accuracy: float
    parent: bool
    chain: tuple[Morphism, ...]
    hyperparameters: Hyperparameters


class RecordedTrial(Struct, frozen=True):
    """A trial of a recorded search, which is run again; `ancestry` leads to its parent from the initial network."""

    id: int
    worker: int
    round: int
    parent: int | None
    ancestry: tuple[Morphism, ...]
    morphisms: tuple[Morphism, ...]
    hyperparameters: Hyperparameters


class History(Struct, frozen=True, tag="history", tag_field="kind"):
    """The answer to Ask: `until` is how many trials the leader knows with these."""

    until: int
    entries: tuple[FinishedTrial, ...]


class Granted(Struct, frozen=True, tag="granted", tag_field="kind", omit_defaults=True):
    """The answer to Claim: the trial of the claimed network at `place`; or, to Ask, a recorded trial to run again."""

    id: int
    given: float
    place: int | None = None
    recorded: RecordedTrial | None = None


class Taken(Struct, frozen=True, tag="taken", tag_field="kind"):
    """The answer to Claim where all these networks are taken."""


class Noted(Struct, frozen=True, tag="noted", tag_field="kind"):
    """The answer to Result."""


class End(Struct, frozen=True, tag="end", tag_field="kind"):
    """The answer to Ask or Claim when there are no more trials."""


Request = Ask | Claim | Result | Forgo | Retire
Answer = History | Granted | Taken | Noted | End

_requests, _answers = msgspec.json.Decoder(Request), msgspec.json.Decoder(Answer)
_finished_trials = msgspec.json.Decoder(FinishedTrial)


def line(value: Struct) -> bytes:
    """A record as one line of JSON. ValueError for a number that is not finite, which msgspec would write as null."""
    return json.dumps(msgspec.to_builtins(value), separators=(",", ":"), allow_nan=False).encode()


def encoded(message: Request | Answer, *lines: bytes) -> bytes:
    """A message as it is sent, with lines of JSON that the receiver passes on."""
    return b"\n".join([line(message), *lines])


def decoded_request(text: bytes | bytearray) -> tuple[Request, Sequence[bytes]]:
    """A message to the coordinator, and the lines that go with it. ValueError for any other text."""
    first, *lines = bytes(text).split(b"\n")
    return _requests.decode(first), lines


def decoded_answer(text: bytes | bytearray) -> Answer:
    """An answer of the coordinator. ValueError for any other text."""
    return _answers.decode(text)


def decoded_finished_trial(text: bytes) -> FinishedTrial:
    """The first of the lines that go with a Result."""
    return _finished_trials.decode(text)


END, TAKEN, NOTED = encoded(End()), encoded(Taken()), encoded(Noted())


def history(until: int, entries: Iterable[bytes]) -> bytes:
    """An encoded History of FinishedTrials that are encoded already."""
    return b'{"kind":"history","until":%d,"entries":[%s]}' % (until, b",".join(entries))

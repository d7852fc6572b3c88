"""Layout of the page of memory in which a rank states what it does; the watcher of its node reads it.

The watcher has mapped the page, so that it can read what a rank did last after the rank was killed.
"""

import os
import struct
from dataclasses import dataclass

BEATS, CHANGES, WATCHED, TEST, GROUP, EPOCH, LOOPS = range(7)  # 64-bit words at the beginning of the page
WORDS = 7
WORDS_END = 8 * WORDS
PARTS = 2**16 - 1  # bits of the beats that count parts of a step, in which ranks of a group may differ
LAST = 2**60  # beats of a loop that has ended
TOGETHER = "ensemble"  # the phase in which ranks of all groups wait for each other
LOOPS_TOGETHER = 2**40  # loops before that phase, where groups may differ
PHASE_AT, PHASE_BYTES = 64, 64
WORKLOAD_AT, WORKLOAD_BYTES = 128, 64
SIGNALS_AT = 256  # one byte for each signal that arrived, in their order
SIZE = 4096


@dataclass(frozen=True)
class Activity:
    """What a rank does.

    beats: marks since its loop of steps began; those that all ranks of a group pass count PARTS + 1. loops: watched
    loops that it began; changes: any change besides beats. watched: whether it is in a loop of steps in which the
    watchdog counts. group: its number; None without a group. test, epoch: numbers from 1; 0 for none.
    """

    beats: int
    changes: int
    watched: bool
    test: int
    group: int | None
    epoch: int
    loops: int
    phase: str
    workload: str

    @property
    def position(self) -> tuple[int, int, int]:
        """How far the rank has come; comparable among the ranks of a group."""
        return self.test, self.loops, self.beats

    @property
    def mark(self) -> tuple[int, int]:
        """What differs after any progress."""
        return self.beats, self.changes


def read(descriptor: int) -> Activity:
    """The activity in a page. OSError if it cannot be read."""
    return unpacked(os.pread(descriptor, SIGNALS_AT, 0))


def unpacked(page: bytes) -> Activity:
    """The activity in the first SIGNALS_AT bytes of a page."""
    words = struct.unpack_from(f"={WORDS}q", page)
    return Activity(
        beats=words[BEATS],
        changes=words[CHANGES],
        watched=bool(words[WATCHED]),
        test=words[TEST],
        group=words[GROUP] - 1 if words[GROUP] else None,
        epoch=words[EPOCH],
        loops=words[LOOPS],
        phase=_text(page[PHASE_AT : PHASE_AT + PHASE_BYTES]),
        workload=_text(page[WORKLOAD_AT : WORKLOAD_AT + WORKLOAD_BYTES]),
    )


def read_signals(descriptor: int) -> bytes:
    """Numbers of the signals that the rank received, in their order. OSError if the page cannot be read."""
    return os.pread(descriptor, SIZE - SIGNALS_AT, SIGNALS_AT).rstrip(b"\0")


def encoded(text: str, nbytes: int) -> bytes:
    """A text as it stands in the page: cut at the length of its field, which ends with a zero."""
    return text.encode("utf-8", "replace")[: nbytes - 1].ljust(nbytes, b"\0")


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("utf-8", "replace")

"""Trials of a search that has gone on for long, for benchmarks of its coordinator; nothing is trained."""

from hpcai.networks.morphism import Deepen, Morphism, Skip, Widen
from hpcai.record.trial import CurveEntry, Hyperparameters, Trial
from hpcai.search.messages import FinishedTrial, line

MORPHISMS, EPOCHS, CLAIMED = 20, 60, 8
KINDS: tuple[Morphism, ...] = (
    Deepen("stage3_block4_relu2", 3),
    Widen("stage3_block4_conv1", 384),
    Skip("stage2_block1_relu3", "stage4_block3_norm3"),
)
CHAIN = tuple(KINDS[place % 3] for place in range(MORPHISMS))
CHOSEN = Hyperparameters(batch=448, kernel=3)
ENTRY = CurveEntry(
    epoch=60,
    seconds=1234.56789012345,
    loss=0.123456789012345,
    validation_loss=0.123456789012345,
    samples=1_281_167,
    skipped=0,
    correct=47_123,
    counted=50_000,
    fingerprint=2**62,
)
CURVE = (ENTRY,) * EPOCHS
TIMES = ("given", "started", "returned", "training_seconds", "validation_seconds", "warmup_seconds")


def lines(worker: int, round_: int, id_: int, value: float) -> tuple[bytes, bytes]:
    """A trial as the coordinator and as the history have it, each as a line."""
    finished = FinishedTrial(id_, round_, value, 0.8, True, CHAIN, CHOSEN)
    return line(finished), line(_trial(worker, round_, id_))


def _trial(worker: int, round_: int, id_: int) -> Trial:
    return Trial(
        id=id_,
        worker=worker,
        round=round_,
        parent=123_456,
        operation="deepen",
        morphisms=CHAIN[-3:],
        hyperparameters=CHOSEN,
        planned_epochs=EPOCHS,
        steps=42_900,
        executed_operations=10**18,
        curve=CURVE,
        deviation=1e-15,
        nbytes=2**35,
        planned_bytes=2**35,
        end="planned",
        **dict.fromkeys(TIMES, 1234.56789012345),
    )

"""Communication beside the backward pass: what of it a step waits for."""

from collections.abc import Iterable


def exposed(sends: Iterable[tuple[float, float]], end: float) -> float:
    """Seconds from the end of the backward pass to the end of the last send.

    sends: of each bucket the time at which it is ready, from the begin of the backward pass, and the seconds that its
    all-reduce takes; in order, one after the other (Li et al., PyTorch Distributed, 2020, section 3.2.3). end: seconds
    of the backward pass.
    """
    done = 0.0
    for ready, seconds in sends:
        done = max(done, ready) + seconds
    return max(0.0, done - end)

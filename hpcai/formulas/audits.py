"""How many steps of an epoch are audited: their copies run inside the training time, their replays outside of it."""

INSIDE, OUTSIDE = 0.01, 0.05  # largest shares of the training time, after the first audit of an epoch
MOST = 4  # in an epoch
COPIES = 2**26  # bytes of the copies of all audited steps of an epoch, if there are several


def at_once(copy_bytes: int) -> int:
    """Most audited steps in an epoch, by the bytes that the copies of one need."""
    return max(1, min(MOST, COPIES // max(copy_bytes, 1)))


def audits(most: int, done: int, seconds: tuple[float, float, float], epoch: float) -> int:
    """Audited steps of the next epoch: 1, and as many more as both shares allow.

    done: audited steps so far. seconds: training time so far, and what those cost inside and outside of it. epoch:
    training time of the last epoch, which the next one is assumed to take; 0 before the first one.
    """
    training, inside, outside = seconds
    if not done or not epoch:
        return 1
    rooms = [(share * (training + epoch) - spent) / spent * done for share, spent in _shares(inside, outside)]
    return int(max(1, min([most, *rooms])))


def _shares(inside: float, outside: float) -> list[tuple[float, float]]:
    return [(share, spent) for share, spent in ((INSIDE, inside), (OUTSIDE, outside)) if spent > 0]

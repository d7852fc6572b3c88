"""Health of nodes: the rate below which a node is slow among all, and which nodes exchange data in which round."""

LISTED = 16  # slowest nodes that a result names
ATTEMPTS = 3  # measurements of a rate in which a node has to be slow: other work on a machine comes and goes
PARTNERS = 6  # nodes that a node exchanges data with: if one in ten is slow, all six are with probability 1e-6
SPREADS = 5.0  # standard deviations of the nodes: normal rates of 1000 nodes are below with probability 3e-4
NORMAL = 1.4826  # standard deviation / median absolute deviation, of a normal distribution
FEWEST = 5  # nodes from which their spread is known
MOST = 0.5  # a node with less than half of the median is slow, however much the others differ


def limit(median: float, deviation: float, nodes: int, tolerance: float) -> float:
    """The rate below which a node is slow. deviation: median absolute deviation of all nodes, in the rate's unit."""
    spread = SPREADS * NORMAL * deviation / median if nodes >= FEWEST and median > 0 else 0.0
    return median * (1 - min(MOST, max(tolerance, spread)))


def middle(nodes: int) -> tuple[int, int]:
    """Places of the values whose mean is the median, from 0 on; the same one twice of an odd number."""
    return (nodes - 1) // 2, nodes // 2


def quartiles(nodes: int) -> tuple[int, int]:
    """Places of the lower and upper quartile, from 0 on."""
    return (nodes - 1) // 4, nodes - 1 - (nodes - 1) // 4


def rounds(nodes: int) -> int:
    """Rounds in which pairs of nodes exchange data; in each, a node has another partner."""
    return min(PARTNERS, nodes - 1 + nodes % 2) if nodes > 1 else 0


def partner(node: int, number: int, nodes: int) -> int | None:
    """The partner of a node in a round; None where it has none, once at most, of an odd number of nodes.

    The circle method of round-robin tournaments: one node stays, the others move on by a place a round.
    """
    last = nodes - 1 + nodes % 2
    if node == last:
        other = number * ((last + 1) // 2) % last
    else:
        other = (number - node) % last
        other = last if other == node else other
    return other if other < nodes else None

"""Where the time of a training step goes, by class of operation: a short profiled stretch, outside the clock."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from hpcai.clock import synchronise
from hpcai.record.training import OperatorSeconds
from hpcai.train.execution import Execution
from hpcai.train.loop import Training
from hpcai.train.profiler import by_class, profiler

STEPS = 2  # that are profiled, after one that is not


def operator_seconds(training: Training, records: bool) -> OperatorSeconds:
    """Seconds by class of operator of a few training steps of this rank, then the state is what it was before.

    The ranks of a group call it together; only one that `records` profiles, on the others every class has 0. On a CPU
    they are seconds of the thread that trains, on a GPU of the kernels that it launched: 0 where the driver tells none.
    """
    state, full = training.state, [step % training.shard.steps for step in range(STEPS)]
    before = state.snapshot()
    with _layer_by_layer(training.execution):
        training.practise(full[:1])
        with profiler(state.device) if records else nullcontext() as recorded:
            training.practise(full)
            synchronise(state.device)
    state.restore(before)
    return OperatorSeconds(**by_class(recorded.key_averages() if recorded else (), state.device))


@contextmanager
def _layer_by_layer(execution: Execution) -> Iterator[None]:
    """Train so that each operator is seen by itself: what was compiled or captured is one piece to the profiler."""
    replica, execution.replica = execution.replica, execution.layer_by_layer
    yield
    execution.replica = replica

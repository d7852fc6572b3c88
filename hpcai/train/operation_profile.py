"""Profile of training steps by class of operator, outside the clock."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from hpcai.clock import synchronise
from hpcai.record.training import OperatorSeconds
from hpcai.train.execution import Execution
from hpcai.train.loop import Training
from hpcai.train.profiler import by_class, profiler

STEPS = 2  # profiled steps, after one that is not


def operator_seconds(training: Training, records: bool) -> OperatorSeconds:
    """Seconds by class of operator of a few training steps of this rank; the state is restored afterwards.

    Called by all ranks of a group; only a rank that `records` profiles, on the others every class has 0. On a CPU
    seconds of the training thread, on a GPU of the kernels that it launched: 0 where the driver reports none.
    """
    state, full = training.state, [step % training.shard.steps for step in range(STEPS)]
    before = state.snapshot()
    with _layer_by_layer(training.execution):
        training.run_uncredited(full[:1])
        with profiler(state.device) if records else nullcontext() as recorded:
            training.run_uncredited(full)
            synchronise(state.device)
    state.restore(before)
    return OperatorSeconds(**by_class(recorded.key_averages() if recorded else (), state.device))


@contextmanager
def _layer_by_layer(execution: Execution) -> Iterator[None]:
    """Train layer by layer, so that the profiler sees each operator.

    A compiled or captured network is one event to it.
    """
    replica, execution.replica = execution.replica, execution.layer_by_layer
    yield
    execution.replica = replica

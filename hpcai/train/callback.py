"""Callbacks of the training loop: early stopping, pauses, and work between steps."""

from hpcai.train.state import Progress


class TrainingCallback:
    """Callback that never stops or pauses the training; the base of others.

    pauses: whether `on_pause` is called; only then an epoch that is cut is checked as far as it went.
    """

    pauses = False

    def on_batch_end(self) -> None:
        """Called after a training step or a validation batch was submitted to the device. Must take microseconds."""

    def should_stop(self) -> bool:
        """Whether to stop after this step. If one rank of the group returns True, all its ranks stop."""
        return False

    def should_pause(self) -> bool:
        """Whether to pause after this step. If one rank of the group returns True, all its ranks pause."""
        return False

    def on_pause(self) -> None:
        """Called in each pause and where the training stops, outside of its clock; by all ranks of the group."""

    def on_validation_end(self, progress: Progress) -> bool:
        """Whether to end the training after this validation. Called by all ranks of the group; the same on each."""
        return False

"""Callbacks of the training loop: early stopping, and work between steps."""

from hpcai.train.state import Progress


class TrainingCallback:
    """Callback that never stops the training; the base of others."""

    def on_batch_end(self) -> None:
        """Called after a training step or a validation batch was submitted to the device. Must take microseconds."""

    def should_stop(self) -> bool:
        """Whether to stop after this step. If one rank of the group returns True, all its ranks stop."""
        return False

    def on_validation_end(self, progress: Progress) -> bool:
        """Whether to end the training after this validation. Called by all ranks of the group; the same on each."""
        return False

"""What may be asked of others while a model trains: whether it is to end early, and what else is to be done."""

from hpcai.train.state import Progress


class Guide:
    """Lets a training run to its end; sub-classes have something to say or to do."""

    def between(self) -> None:
        """A step, or a batch of a validation, has been given to the device. Must take microseconds."""

    def overdue(self) -> bool:
        """Whether the training is to stop after this step; if one rank of the group says so, all stop."""
        return False

    def enough(self, progress: Progress) -> bool:
        """Whether the training ends with the validation just noted. Called by all ranks of the group, which agree."""
        return False

"""Errors meant for users: each says what is wrong, where, and what is allowed.

The error determines the exit code: 2 for an illegal input or launch, 3 for a run that broke off.
"""


class HpcaiError(Exception):
    """A run that cannot go on; base of all errors that users see."""

    exit_code = 3


class InputError(HpcaiError):
    """The input file or the command line is illegal; nothing has run."""

    exit_code = 2


class LaunchError(HpcaiError):
    """The job was launched in a way that cannot work (wrong launcher, too few ranks)."""

    exit_code = 2


class DataError(HpcaiError):
    """A dataset is missing, damaged, or other than its description."""


class Refused(HpcaiError):
    """All ranks agree that the job cannot be run; `exit_code` is that of the error on rank 0."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code

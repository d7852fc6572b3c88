"""Content of trainings whose input is not known, as in tests of the training loop alone: nothing is checked."""


class Unchecked:
    """Has the methods of TrainingContent and EvaluationContent, which do nothing."""

    def allocate(self, *_: object) -> None:
        """Nothing is kept."""

    def begin(self, *_: object) -> None:
        """Nothing is drawn."""

    def note(self, *_: object) -> None:
        """Nothing is copied."""

    def audited(self, *_: object) -> None:
        """Nothing is copied."""

    def replayed(self, *_: object) -> None:
        """Nothing is compared."""

    def close(self, *_: object) -> None:
        """Nothing is compared."""

    def predicted(self, *_: object) -> None:
        """Nothing is kept."""

    def classes_of(self, *_: object) -> None:
        """Nothing was kept."""

    def recount(self, *_: object) -> None:
        """Nothing is counted."""

"""Names of a user's own datasets in results: lists rank by name, and figures of other content cannot be compared."""

DIGITS = 8  # of the fingerprint


def content_name(kind: str, number: int, fingerprint: str) -> str:
    """The name of data of a kind; number: of their classes, or of the bytes of a sequence."""
    return f"{kind}-{number}-{fingerprint[:DIGITS]}"

"""Names of the files of a search in the result folder."""

import re

JOURNAL = "history.jsonl"


def search_folder(test: int) -> str:
    """The folder of a search, by the number of its test, in the result folder."""
    return f"search-{test}"


def test_of(path: str) -> int | None:
    """The number of the test whose search a path in the result folder belongs to; None of other files."""
    found = re.match(r"search-(\d+)/", path)
    return int(found[1]) if found else None


def weights_name(trial: int) -> str:
    """The file of the weights that a trial ended with, in the folder of the search."""
    return f"{trial}.safetensors"

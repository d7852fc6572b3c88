"""Names of the files of a search in the result folder."""

JOURNAL = "history.jsonl"


def search_folder(test: int) -> str:
    """The folder of a search, by the number of its test, in the result folder."""
    return f"search-{test}"


def weights_name(trial: int) -> str:
    """The file of the weights that a trial ended with, in the folder of the search."""
    return f"{trial}.safetensors"

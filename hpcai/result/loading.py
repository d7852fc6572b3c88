"""What reading the training data took, from what the loaders of all ranks measured in the timed region."""

from typing import Any

from hpcai.inputfile import Case

Json = dict[str, Any]


def loading(case: Case, raw: Json) -> Json:
    """Bytes a second that all ranks read in training, and what a rank's loading did with that time, as shares of it.

    Reading and decompressing are summed over the threads of a rank, so they may exceed 1. Nothing of pictures.
    """
    if "loading" not in raw:
        return {}
    found, training = raw["loading"], raw["phases"]["training"]
    all_ranks = case["GROUPS"] * case["DEGREE"] * training
    reads = found["bytes_read"] > 0
    return {
        "loading": {
            "read_rate": found["bytes_read"] / training if reads else None,
            "reading_share": found["read_seconds"] / all_ranks if reads else None,
            "decompressing_share": found["decompress_seconds"] / all_ranks if reads else None,
            "loading_share": found["load_seconds"] / all_ranks,
        }
    }

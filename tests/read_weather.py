"""What a printed report tells of weather alone, to be compared with the JSON."""

from typing import Any

Json = dict[str, Any]

CLASSES = {2: ("tropical cyclone", "extratropical cyclone")}


def named(test: Json) -> Json:
    """The scores that only weather has, by the names that the report gives them."""
    scores, read = test["scores"], test["scores"]["loading"]
    classes = scores["class_precision"]
    return {
        **{f"mAP at an overlap of {overlap}": scores["mean_average_precision"][overlap] for overlap in ("0.5", "0.1")},
        **{f"AP at 0.5, {name}": value for name, value in zip(CLASSES[len(classes)], classes, strict=True)},
        "fields read in training, GB/s": None if read["read_rate"] is None else read["read_rate"] / 1e9,
        "share of training, loading": read["loading_share"],
        "share of training, reading": read["reading_share"],
        "share of training, decompressing": read["decompressing_share"],
    }

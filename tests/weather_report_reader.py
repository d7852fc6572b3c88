"""Reads the part of a printed report that only weather has, to be compared with the JSON."""

from typing import Any

Json = dict[str, Any]

CLASSES = {2: ("tropical cyclone", "extratropical cyclone")}


def classes_named(test: Json) -> Json:
    """Average precision of each class, by the names that the report gives them."""
    classes = test["scores"]["class_precision"]
    return {
        f"AP at an overlap of 0.5, {name}": value
        for name, value in zip(CLASSES[len(classes)], classes, strict=True)
    }

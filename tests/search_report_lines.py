"""What the report tells of a search, by the names it gives that."""

from typing import Any

Json = dict[str, Any]
G = 1e9


def named(test: Json) -> Json:
    """Values of the lines below the checks, in their order."""
    scores, raw = test["scores"], test["raw"]
    spent, rate = scores["operations_to_quality"], scores["training_rate"]
    return {
        "quality(top1)/target": scores["quality"] / scores["target"],
        "OPS, 10^9 per second": scores["ops"] / G,
        "regulated score, highest, 10^9": scores["regulated_score"] / G,
        "regulated score, highest, after s": scores["regulated_seconds"],
        "regulated score, counts from s": scores["least_seconds"],
        "regulated score, last, 10^9": scores["regulated_last"] / G,
        "operations of training, rule aiperf, 10^9": scores["training_operations"] / G,
        "operations of validation, rule aiperf, 10^9": scores["validation_operations"] / G,
        "quality of the best trial (top-1)": scores["quality"],
        "target": scores["target"],
        "time to quality, s": scores["time_to_quality"],
        "operations to quality, 10^9": None if spent is None else spent / G,
        "parallel efficiency": scores["efficiency"],
        "GFLOP/s while training": None if rate is None else rate / G,
        "images/s": scores["images_per_second"],
        **{f"share of the search, {part}": share for part, share in scores["shares"].items()},
        "idle time of a group, min, s": raw["group_seconds"]["idle"]["min"],
        "idle time of a group, max, s": raw["group_seconds"]["idle"]["max"],
        "coordinator, share of the search it was busy": scores["coordinator_share"],
        "coordinator, mean wait for an answer, s": raw["coordinator"]["wait_mean"],
        "coordinator, longest wait for an answer, s": raw["coordinator"]["wait_max"],
        "proposal of a network, mean, s": raw["proposals"]["seconds_mean"],
        "proposal of a network, longest, s": raw["proposals"]["seconds_max"],
        "speed of the precision in a probe, of fp32": scores["precision_speed"],
    }


def phases_named(test: Json) -> Json:
    return {f"phase {name}, s": seconds for name, seconds in test["phases"].items()}

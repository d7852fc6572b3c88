"""What step times, the ranks' times and the profiled stretch owe each other and the phases."""

from typing import Any

from hpcai.inputfile import Case
from hpcai.report.consistency.rounding import at_most, within

Json = dict[str, Any]

CLOCKS = 1e-3  # share by which the clock of a device may differ from that of its host


def steps(case: Case, raw: Json) -> dict[str, bool]:
    """Step times of the rank with the largest median."""
    count, mean, median, p95 = (raw["step_seconds"][name] for name in ("count", "mean", "median", "p95"))
    longest = count - (95 * count + 99) // 100 + 1  # steps that last p95 at least
    least = ((count + 1) // 2 - longest) * median + longest * p95
    return {
        "step_seconds: count, of a model": raw["model_steps_min"] <= count <= raw["model_steps_max"],
        "step_seconds: 0 < median <= p95": 0 < median <= p95,
        "step_seconds: half of the steps last the median": at_most(least, mean * count),
        "step_seconds: all steps within training": mean * count <= raw["phases"]["training"] * (1 + CLOCKS),
    }


def ranks(case: Case, raw: Json) -> dict[str, bool]:
    """Busy and waiting seconds of all active ranks."""
    busy, waiting, count = raw["busy_seconds"], raw["waiting_seconds"], case["GROUPS"] * case["DEGREE"]
    phases, least, mean, most = raw["phases"], busy["min"], busy["mean"], busy["max"]
    waits = {"data": phases["data wait"], "communication": phases["exposed communication"]}
    return {
        "busy_seconds: 0 <= min <= mean <= max": least >= 0 and at_most(least, mean) and at_most(mean, most),
        "busy_seconds: mean, with one rank at min, one at max": at_most((count - 1) * least + most, count * mean)
        and at_most(count * mean, least + (count - 1) * most),
        "busy_seconds: max <= training": at_most(most, phases["training"]),
        "busy_seconds: max >= training - waiting": at_most(phases["training"], most + sum(waits.values())),
        "busy_seconds: slowest_rank is active": 0 <= busy["slowest_rank"] < count,
        "waiting_seconds: max <= sum <= ranks x max": all(
            within(longest, count * waiting[kind], count) for kind, longest in waits.items()
        ),
        "busy and waiting seconds <= training": at_most(mean + sum(waiting.values()), phases["training"]),
        "one rank of a model does not communicate": case["DEGREE"] > 1 or phases["exposed communication"] == 0,
    }


def operations(case: Case, raw: Json) -> dict[str, bool]:
    """The profiled stretch; kernels that communicate may run beside others."""
    seconds = raw["operation_seconds"].values()
    return {
        "operation_seconds >= 0": all(part >= 0 for part in seconds),
        "operation_seconds <= phase profile": raw["backend"] == "nccl"
        or at_most(sum(seconds), raw["phases"]["profile"]),
    }

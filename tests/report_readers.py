"""Reads a printed report as parsers made for HPL do, and line by line, and compares what it says with the JSON."""

import re
from typing import Any

import pytest
import read_weather
import search_report_lines
from hpcai.report.hpl import CEILINGS

from hpcai.report.roofline import shares

Json = dict[str, Any]
Lines = dict[str, tuple[str, str | None]]  # value and verdict by name

ROW = re.compile(r"^W[RC][0-9]{2}[A-Z][0-9][A-Z][0-9]\s+\d+\s+\d+\s+\d+\s+\d+\s+[\d.]+\s+[\d.eE+-]+$")
# Parsers in use look for no more than this: four integers, a decimal, a number.
LOOSE_ROW = re.compile(r"\d+\s+\d+\s+\d+\s+\d+\s+\d*\.\d*\s+[-+.\d]")
RESIDUAL = re.compile(
    r"^\|\|Ax-b\|\|_oo/\(eps\*\(\|\|A\|\|_oo\*\|\|x\|\|_oo\+\|\|b\|\|_oo\)\*N\)= +([\d.]+) \.{6} (PASSED|FAILED)$"
)
LINE = re.compile(r"^ *(?P<name>\S.*?)= *(?P<value>-?\d+\.\d{7}|not reached|n/a, .*?)(?: \.{6} (?P<verdict>[A-Z ]+))?$")
STEPS = {"mean": "mean", "median": "median", "95th percentile": "p95"}
HEADER = "T/V                N    NB     P     Q               Time                 Gflops"


def named(scores: Json, quality: str = "top-1", samples: str = "images") -> Json:
    """The scores by the names that the report gives them."""
    return {
        f"quality({quality.replace('-', '')})/target": scores["quality"] / scores["target"],
        "Valid FLOPS in GFLOP/s": scores["valid_flops"] / 1e9,
        f"quality of the ensemble ({quality})": scores["quality"],
        "target": scores["target"],
        "quality of the models, mean": scores["member_mean"],
        "quality of the models, min": scores["member_min"],
        "quality of the models, max": scores["member_max"],
        "quality of the models, best": scores["member_best"],
        "quality out of bag": scores["out_of_bag"],
        "time to quality, slowest model, s": scores["time_to_quality"],
        "time to quality, mean, s": scores["time_to_quality_mean"],
        "epochs to quality, slowest model": scores["epochs_to_quality"],
        "epochs to quality, mean": scores["epochs_to_quality_mean"],
        "parallel efficiency": scores["efficiency"],
        "speed-up over the sweep's first case": scores["speedup"],
        "quality, difference from that case": scores["quality_difference"],
        "speed of the precision in a probe, of fp32": scores["precision_speed"],
        f"{samples}/s": scores["images_per_second"],
    }


def memory_named(test: Json) -> Json:
    """What the report tells of memory and utilisation, by the names it gives that."""
    used = test["raw"]["memory"]
    since = "of the run so far" if used["whole_run"] else "of a rank"
    told = {
        f"peak memory {since}, MiB": used["peak_bytes"] / 2**20,
        "of it process and libraries, MiB": used["baseline_bytes"] / 2**20,
        "share of the memory planned": test["scores"]["memory_share"],
    }
    average = test["raw"].get("telemetry", {}).get("average", {})
    names = {"processors": "processors", "GPUs": "gpus"}
    return told | {f"utilisation of the {words}, average": average.get(name) for words, name in names.items()}


def seconds_named(test: Json) -> Json:
    """What the report tells of where the time went, by the names it gives that."""
    raw, scores = test["raw"], test["scores"]
    step, busy, kinds = raw["step_seconds"], raw["busy_seconds"], raw["operation_seconds"]
    told = {f"step, {name}, s": step[key] for name, key in STEPS.items()}
    told |= {f"busy time of the ranks, {name}, s": busy[name] for name in ("min", "mean", "max")}
    told["busy time of the ranks, (max - min) / mean"] = scores["busy_spread"]
    told |= {f"share of training, {part}": share for part, share in scores["training_shares"].items()}
    told |= {f"phase {name}, s": seconds for name, seconds in test["phases"].items()}
    told |= {f"share of the phases, {name}": share for name, share in scores["phase_shares"].items()}
    return told | {f"share of the operators, {kind}": (scores["operation_shares"] or {}).get(kind) for kind in kinds}


def roofline_named(test: Json) -> Json:
    """What the report tells of a test under the roofline, by the names it gives that; nothing without tables."""
    scores = test["scores"]
    if "roofline" not in scores:
        return {}
    found = scores["roofline"]
    told = {"GFLOP/s of a rank": found["rate"] / 1e9}
    told |= {"FLOP per byte of memory": found["intensity"]["memory"]}
    told |= {"FLOP per byte all-reduced": found["intensity"]["communication"]}
    told |= {words: found["shares"][name] for name, words in shares(found).items()}
    for where, rate in scores["gradient_bandwidth"].items():
        told[f"bandwidth of gradients {where} nodes, GB/s"] = None if rate is None else rate / 1e9
    return told


def printed(text: str, value: float | None, digits: int = 7) -> bool:
    """Whether a text is a number to its printed precision, or says that there is none."""
    if value is None:
        return text == "not reached" or text.startswith("n/a, ")
    return abs(float(text) - value) <= 0.5000001 * 10**-digits + 1e-15 * abs(value)


def read_tests(report: str) -> list[tuple[list[str], Lines]]:
    """The words of each row, and value and verdict of each line below it by name."""
    tests: list[tuple[list[str], Lines]] = []
    for part in re.split(f"\n{re.escape(HEADER)}\n-+\n", report)[1:]:
        row, *lines = part[: part.index("\n\n")].split("\n")
        found = [line for line in map(LINE.match, lines) if line]
        tests.append((row.split(), {line["name"]: (line["value"], line["verdict"]) for line in found}))
        assert len(tests[-1][1]) == len(found), "a name stands twice"
    return tests


def assert_tells(report: str, result: Json) -> None:
    """Every row, every line below it and the summary say what the JSON says."""
    tests = read_tests(report)
    assert len(tests) == len(result["tests"])
    for (row, lines), test in zip(tests, result["tests"], strict=True):
        assert row[:5] == [str(test[name]) for name in ("tv", "n", "nb", "p", "q")]
        assert printed(row[5], test["seconds"], 2)
        assert float(row[6]) == pytest.approx(test["gflops"], rel=5e-5, abs=5e-7)
        assert_lines(lines, test)
    assert_summary(report, result)


def assert_lines(lines: Lines, test: Json) -> None:
    values = {check["name"]: check["value"] for check in test["checks"]}
    if test["workload"] == "nas":
        values |= search_report_lines.named(test) | memory_named(test) | search_report_lines.phases_named(test)
    elif test["workload"] == "weather":
        values |= named(test["scores"], "mAP", "frames") | memory_named(test) | read_weather.named(test)
        values |= seconds_named(test) | roofline_named(test)
    else:
        values |= named(test["scores"]) | memory_named(test) | seconds_named(test) | roofline_named(test)
    verdicts: dict[str, str] = {check["name"]: check["verdict"] for check in test["checks"]}
    quality = "mAP" if test["workload"] == "weather" else "top1"
    verdicts[f"quality({quality})/target"] = "REACHED" if test["scores"]["reached"] else "MISSED"
    assert list(lines) == list(values)
    for name, (value, verdict) in lines.items():
        assert printed(value, values[name]), name
        assert verdict == verdicts.get(name)


def assert_summary(report: str, result: Json) -> None:
    block = re.search(r"^Begin of Summary section\.\n(.*)^End of Summary section\.$", report, re.DOTALL | re.MULTILINE)
    assert block
    told = dict(line.split("=", 1) for line in block[1].splitlines())
    summary, best = result["summary"], result["summary"]["best"] or {}
    figures = {"ops", "regulated_score", "idle_share"} if "ops" in best else {"valid_gflops"}
    assert told.keys() >= {"gflops", *figures, "quality", "target", "P", "Q", "time"} or not best
    plain = {name: summary[name] for name in ("valid", "tests", "passed", "failed", "skipped", "fingerprint")}
    plain |= {name: result[name] for name in ("schema", "version")}
    plain |= summary.get("weather", {}) | summary.get("search", {})
    ceilings = {name: summary["ceilings"].get(key) for name, key in CEILINGS.items()}
    plain |= {name: rate / 1e9 for name, rate in ceilings.items() if rate is not None}
    assert {name for name in told if name in CEILINGS} == {name for name in CEILINGS if name in plain}
    for name, value in told.items():
        expected = best[name] if name in best else plain[name]
        assert printed(value, expected) if isinstance(expected, float) else value == str(expected), name
        assert not re.search(r"\d[eE][-+]\d", value)
    counts = [summary[name] for name in ("tests", "passed", "failed", "skipped")]
    assert counts[0] == sum(counts[1:])
    assert "Finished {:6d} tests with the following results:\n".format(*counts[:1]) in report
    assert f"         {counts[1]:6d} tests completed and passed residual checks,\n" in report
    assert f"         {counts[2]:6d} tests completed and failed residual checks,\n" in report
    assert f"         {counts[3]:6d} tests skipped because of illegal input values.\n" in report


def assert_parsers_read_it(report: str, result: Json) -> None:
    """What parsers look for stands where they expect it, and nowhere else."""
    lines = report.split("\n")
    assert lines == [*report.splitlines(), ""]
    rows = [line for line in lines if ROW.match(line)]
    assert len(rows) == len(result["tests"])
    for line in lines:
        assert len(line) <= 200
        assert ("WR" in line or "WC" in line[:2]) == (line in rows), line
        assert bool(LOOSE_ROW.search(line)) == (line in rows), line
        assert " Gflops" not in line or line == HEADER, line
        assert "HOSTLIST" not in line
    for index, line in enumerate(lines):
        if line == HEADER:
            assert lines[index - 1 : index + 3] == ["=" * 80, HEADER, "-" * 80, rows.pop(0)]
            assert RESIDUAL.match(lines[index + 3])
    assert not rows
    if result["summary"]["complete"]:
        assert report.endswith("\nEnd of Tests.\n" + "=" * 80 + "\n") and report.count("End of Tests") == 1
    else:
        assert "End of Tests" not in report

"""The printed report, in the layout of HPL: a pure function of the result, piece by piece as the tests end.

Free text (headers, host names) is kept from looking like a row, so that parsers made for HPL read the report unchanged.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hpcai.inputfile import echo, from_dict

Json = dict[str, Any]

LINE = "=" * 80
DASHES = "-" * 80
WIDTH = 200
NAME_WIDTH = 48  # of HPL's residual, whose line begins in the first column
COLUMNS = "T/V                N    NB     P     Q               Time                 Gflops"
EXPLANATION = """\
An explanation of the input/output parameters follows:
T/V    : how the row was made: W, the mapping of groups (R by row, C by column), the
         workload (1 ensemble), the all-reduce (0 none, 1 flat), the precision (S fp32),
         the parallel mode (1 data), the kernels (V vendor), bytes per gradient element.
N      : training samples credited over all groups in the timed region.
NB     : training samples per rank and step.
P      : models trained at once, each by its own group of ranks.
Q      : ranks that train one model together.
Time   : training time in seconds, of the slowest rank, validation passes excepted.
Gflops : credited training operations (rule model) / Time, in 10^9 per second.
Each row is followed by its checks and scores; docs/METRICS.md derives every number.
All clocks start after a barrier, with the devices idle."""
END = "End of Tests."
# What parsers look for, and what is printed in its place where headers, paths or names of machines have it.
WORDS_OF_PARSERS = {"WR": "Wr", " Gflops": " GFLOP/s", "End of Tests": "End of tests", "HOSTLIST": "Hostlist"}
VERDICTS = {"PASSED": "Passed", "FAILED": "Failed"}
LIKE_A_ROW = re.compile(r"(\d+(?:\s+\d+){3})(?=\s+\d*\.\d*\s+[-+.\d])")  # four integers, a decimal, a number


def banner(result: Json) -> str:
    """Everything above the first row."""
    given = result["input"]
    lines = [
        LINE,
        f"HPCAI bench {result['version']}: a LINPACK for AI machines    {result['date']}",
        f"Input  : {given['name']}, schema {result['schema']}, sha256 {given['digest']}",
        *(f"Header : {_free(header)}" for header in given["headers"]),
        LINE,
        "",
        *EXPLANATION.splitlines(),
        "",
        "The following parameter values will be used:",
        "",
        *echo(from_dict(given)),
        "",
        *_options(given["overrides"]),
        *_machine(result["environment"]),
        "",
        *_rank_map(result["ranks"], result["environment"]),
        "",
    ]
    return _printed(lines)


def _options(overrides: Sequence[str]) -> list[str]:
    return [f"Command line: --set {_free(option)}" for option in overrides] + [""] * bool(overrides)


def _machine(environment: Json) -> list[str]:
    packages = ", ".join(f"{name} {version}" for name, version in environment["packages"].items())
    nodes = f"{environment['nodes']} node{'s' * (environment['nodes'] != 1)}"
    return [
        f"Machine : {nodes}; rank 0 on {environment['processor']}, {environment['cpus']} CPUs, "
        f"{environment['memory_bytes'] / 2**30:.1f} GiB, device {environment['device']}, {environment['system']}",
        f"Software: Python {environment['python']}, {packages}",
        f"MPI     : {environment['mpi']}",
    ]


def _rank_map(ranks: Sequence[Json], environment: Json) -> list[str]:
    grids = environment["grids"]
    heads = "".join(f"{grid:>10}" for grid in grids)
    lines = [
        f"{'Rank':>7}{heads}  {'Host':<24} {'Device':<10} {'Threads':>7}  CPUs    (P x Q, R by row, C by column: group)"
    ]
    for rank in ranks:
        groups = "".join(f"{'idle' if group is None else group:>10}" for group in rank["groups"])
        lines.append(
            f"{rank['rank']:>7}{groups}  {rank['host']:<24} {rank['device']:<10} {rank['threads']:>7}  {rank['cpus']}"
        )
    if environment["ranks"] > len(ranks):
        lines.append(f"{'...':>7} and {environment['ranks'] - len(ranks)} more ranks, condensed")
    return lines + environment["idle"] + [f"WARNING: {warning}" for warning in environment["warnings"]]


def block(test: Json) -> str:
    """One test: HPL's header and row, then a line per check and per score."""
    head = "\n".join([LINE, COLUMNS, DASHES, row(test), ""])
    return head + _printed([*_check_lines(test), *_score_lines(test), *_notes(test), ""])


def row(test: Json) -> str:
    """The result row, in HPL's format; but from 10^11 samples on, N keeps a blank before it."""
    rate = f"{test['gflops']:19.4e}" if test["gflops"] >= 1 else f"{test['gflops']:19.6f}"
    grid = f"{test['nb']:5d} {test['p']:5d} {test['q']:5d}"
    return f"{test['tv']:<8} {test['n']:11d} {grid} {test['seconds']:18.2f}    {rate}"


def _check_lines(test: Json) -> Iterator[str]:
    for check in test["checks"]:
        yield f"{check['name']:>{NAME_WIDTH}}= {check['value']:16.7f} ...... {check['verdict']}"
    scores = test["scores"]
    verdict = "REACHED" if scores["reached"] else "MISSED"
    yield f"{'quality(top1)/target':>{NAME_WIDTH}}= {scores['quality'] / scores['target']:16.7f} ...... {verdict}"


def _score_lines(test: Json) -> Iterator[str]:
    scores = test["scores"]
    yield _score("Valid FLOPS in GFLOP/s", scores["valid_flops"] / 1e9)
    yield _score("quality of the ensemble (top-1)", scores["quality"])
    yield _score("target", scores["target"])
    for name in ("mean", "min", "max", "best"):
        yield _score(f"quality of the models, {name}", scores[f"member_{name}"])
    yield _score("quality out of bag", scores["out_of_bag"], "n/a, one model" if test["p"] == 1 else "n/a, none left")
    yield _score("time to quality, slowest model, s", scores["time_to_quality"], "not reached")
    yield _score("time to quality, mean, s", scores["time_to_quality_mean"], "not reached")
    yield _score("epochs to quality, slowest model", scores["epochs_to_quality"], "not reached")
    yield _score("epochs to quality, mean", scores["epochs_to_quality_mean"], "not reached")
    yield _score("parallel efficiency", scores["efficiency"])
    yield _score("images/s", scores["images_per_second"])
    yield _score("share of training spent waiting for data", scores["data_wait_share"])
    for name, seconds in test["phases"].items():
        yield _score(f"phase {name}, s", seconds)


def _score(name: str, value: float | None, otherwise: str = "") -> str:
    return f"{name:>{NAME_WIDTH}}= {otherwise:>16}" if value is None else f"{name:>{NAME_WIDTH}}= {value:16.7f}"


def _notes(test: Json) -> Iterator[str]:
    raw, operations = test["raw"], test["operations"]
    data = raw["dataset"]
    settings = test["settings"]
    side = settings["RESOLUTION"] or "x".join(map(str, data["shape"][1:]))
    samples = f"{data['training_samples']} + {data['validation_samples']} samples"
    yield f"Data    : {data['name']}, {samples}, sha256 {data['fingerprint']}"
    yield f"Sharding: {raw['sharding']}"
    yield (
        f"Network : {settings['NETWORK']} {settings['VARIANT']} at {side}, rule {operations['rule']}: "
        f"{operations['per_sample']} FLOP per sample, {operations['credited']} credited"
    )
    yield (
        f"Steps   : {raw['steps']} in all, {raw['model_steps_min']} to {raw['model_steps_max']} a model, "
        f"{raw['warmup_steps']} warm-up steps discarded, backend {raw['backend']}"
    )
    for measure in ("scaled", "elementwise"):
        yield f"Residual: worst {measure}: {raw['residuals'][measure]['where']}"
    yield _with_reasons(f"Status  : {test['status']}", test["reasons"])


def closing(result: Json) -> str:
    """Everything below the last row; only a run in which every test ended gets its last line."""
    summary = result["summary"]
    lines = [
        LINE,
        "",
        f"Finished {summary['tests']:6d} tests with the following results:",
        f"         {summary['passed']:6d} tests completed and passed residual checks,",
        f"         {summary['failed']:6d} tests completed and failed residual checks,",
        f"         {summary['skipped']:6d} tests skipped because of illegal input values.",
        DASHES,
        "",
        *_summary(result),
        "",
        _final(summary),
        "",
    ]
    broken_off = f"BROKEN OFF after {summary['tests']} of {summary['planned']} tests."
    return _printed(lines) + (f"{END}\n{LINE}\n" if summary["complete"] else f"{broken_off}\n")


def _summary(result: Json) -> Iterator[str]:
    summary = result["summary"]
    yield "Begin of Summary section."
    yield f"schema={result['schema']}"
    yield f"version={result['version']}"
    for name in ("valid", "tests", "passed", "failed", "skipped"):
        yield f"{name}={summary[name]}"
    for name, value in (summary["best"] or {}).items():
        yield f"{name}={value:.7f}" if isinstance(value, float) else f"{name}={value}"
    yield f"fingerprint={summary['fingerprint']}"
    yield "End of Summary section."


def _final(summary: Json) -> str:
    return _with_reasons(f"Final Summary::HPCAI result is {summary['valid']}", summary["reasons"])


def _with_reasons(verdict: str, reasons: Sequence[str]) -> str:
    """A verdict with every reason; where that is wider than a line, without the official values."""
    line = "; ".join([verdict, *reasons])
    return line if len(line) <= WIDTH else "; ".join([verdict, *_short(reasons)])


def _short(reasons: Sequence[str]) -> list[str]:
    found: dict[str, list[str]] = {}
    for reason in reasons:
        subject, _, value = reason.partition(", official")[0].partition(" ")
        found.setdefault(subject, []).append(value)
    return [f"{subject} {' '.join(dict.fromkeys(values))}" for subject, values in found.items()]


def _printed(lines: Sequence[str]) -> str:
    return "".join(f"{_plain(line)}\n" for line in lines)


def _plain(line: str) -> str:
    """A line that is no row: printable, without what parsers find rows and ends by, and not wider than WIDTH."""
    if not line.isprintable():
        line = "".join(letter if letter.isprintable() else " " if letter.isspace() else "?" for letter in line)
    line = LIKE_A_ROW.sub(r"\1,", _replaced(line, WORDS_OF_PARSERS))
    return line if len(line) <= WIDTH else line[: WIDTH - 3] + "..."


def _free(text: str) -> str:
    """A user's words, which are not to be counted among the verdicts."""
    return _replaced(text, VERDICTS)


def _replaced(text: str, words: Mapping[str, str]) -> str:
    for word, other in words.items():
        text = text.replace(word, other)
    return text

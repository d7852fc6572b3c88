"""The printed report, in the layout of HPL: a pure function of the result, piece by piece as the tests end."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from hpcai.inputfile import echo, from_dict
from hpcai.report import repeat
from hpcai.report.block import DASHES, LINE
from hpcai.report.text import free, printed, with_reasons
from hpcai.result.kernels import PEAKS_ON_GPUS

Json = dict[str, Any]

EXPLANATION = """\
An explanation of the input/output parameters follows:
T/V    : how the row was made: W, the mapping of groups (R by row, C by column), the
         workload (1 ensemble, 2 weather, 3 nas), the all-reduce (0 none, 1 flat), the precision
         (S fp32, T tf32, H fp16, B bf16, P pure16, I int8), the parallel mode (1 data), the
         kernels (V vendor, C custom, A auto, F a file), bytes per gradient element.
N      : training samples credited over all groups in the timed region.
NB     : training samples per rank and step; of nas those that a search begins with.
P      : models trained at once, each by its own group of ranks; of nas the groups.
Q      : ranks that train one model together.
Time   : training time in seconds, of the slowest rank, validation passes excepted; of nas
         the whole search, less the validation of the group that had least of it.
Gflops : credited training operations (rule model) / Time, in 10^9 per second.
Each row is followed by its checks and scores; docs/METRICS.md derives every number.
All clocks start after a barrier, with the devices idle."""
TABLES = {
    "kernels": "kernels: matrix products and convolutions, our kernels beside the vendor's, and what bounds them.",
    "comm": "comm   : collectives of MPI and of the backend that trains, in the layout of nccl-tests.",
}
NO_ROWS = "Tests of these sections make a table and no row:"
END = "End of Tests."
CEILINGS = {
    "ceiling_fma_peak_gflops": "fma_peak",
    "ceiling_gemm_gflops": "gemm",
    "ceiling_convolution_gflops": "convolution",
    "ceiling_triad_gbytes": "triad",
    "ceiling_copy_gbytes": "copy",
    **{f"ceiling_{name}_gflops": name for name in PEAKS_ON_GPUS},
    "busbw_gbytes": "all_reduce_bus",
}


def banner(result: Json) -> str:
    """Everything above the first row."""
    given = result["input"]
    lines = [
        LINE,
        f"HPCAI bench {result['version']}: a LINPACK for AI machines    {result['date']}",
        f"Input  : {given['name']}, schema {result['schema']}, sha256 {given['digest']}",
        *(f"Header : {free(header)}" for header in given["headers"]),
        LINE,
        "",
        *EXPLANATION.splitlines(),
        *_tables({section["name"] for section in given["sections"]}),
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
    return printed(lines)


def _tables(sections: Collection[str]) -> list[str]:
    """What the tables of the input's sections show."""
    lines = [line for section, line in TABLES.items() if section in sections]
    return [NO_ROWS, *lines] if lines else []


def _options(overrides: Sequence[str]) -> list[str]:
    return [f"Command line: --set {free(option)}" for option in overrides] + [""] * bool(overrides)


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


def closing(result: Json) -> str:
    """Everything below the last row; only a run in which every test ended gets its last line."""
    summary = result["summary"]
    lines = [
        LINE,
        "",
        *repeat.table(summary["repeatability"]),
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
    return printed(lines) + (f"{END}\n{LINE}\n" if summary["complete"] else printed(_broken_off(result)))


def _broken_off(result: Json) -> Iterator[str]:
    """The end of a run whose tests did not all end; no line of it looks like a row."""
    summary, test = result["summary"], result["broken_off"]
    if test and test["tv"] is None:
        yield f"Test {test['index']} has no table, for the run ended first; [{test['workload']}] is not checked"
    elif test and test["raw"]:
        raw = test["raw"]
        rate = "" if test["gflops"] is None else f": {test['gflops']:.4f} GFLOP/s"
        yield (
            f"Test {test['index']}, {test['tv'].replace('W', 'w', 1)}, ended in its {raw['where']}: "
            f"{test['n']} samples, {raw['steps']} steps in {raw['seconds']:.2f} s of training{rate}, "
            "not checked and not ranked"
        )
    cause = f" by {test['cause']}" if test else ""
    yield f"BROKEN OFF after {summary['tests']} of {summary['planned']} tests{cause}."


def _summary(result: Json) -> Iterator[str]:
    summary = result["summary"]
    yield "Begin of Summary section."
    yield f"schema={result['schema']}"
    yield f"version={result['version']}"
    for name in ("valid", "tests", "passed", "failed", "skipped"):
        yield f"{name}={summary[name]}"
    for name, value in (summary["best"] or {}).items():
        yield f"{name}={value:.7f}" if isinstance(value, float) else f"{name}={value}"
    for name, key in CEILINGS.items():
        if summary["ceilings"].get(key) is not None:
            yield f"{name}={summary['ceilings'][key] / 1e9:.7f}"
    for name, value in {**summary.get("weather", {}), **summary.get("search", {})}.items():
        yield f"{name}={value:.7f}" if isinstance(value, float) else f"{name}={value}"
    for entry in summary["repeatability"]:
        if summary["best"]["index"] in entry["tests"]:
            yield from _variation(entry)
    yield f"fingerprint={summary['fingerprint']}"
    yield "End of Summary section."


def _variation(entry: Json) -> Iterator[str]:
    """How often the best row was run, and how far the runs lie apart."""
    yield f"repetitions={len(entry['tests'])}"
    for name in ("flops", "regulated_score", "quality"):
        if name in entry and entry[name]["cv"] is not None:
            yield f"cv_percent_{name}={100 * entry[name]['cv']:.7f}"


def _final(summary: Json) -> str:
    return with_reasons(f"Final Summary::HPCAI result is {summary['valid']}", summary["reasons"])

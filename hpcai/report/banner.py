"""The head of the report, above the first row: version, input, explanation of the columns, machine and rank map."""

from collections.abc import Collection, Iterator, Sequence
from textwrap import wrap

from hpcai.comm.grid_coordinates import place_in
from hpcai.formulas.precision import PRECISIONS
from hpcai.gradients.reductions import AUTO, REDUCTIONS, algorithms
from hpcai.inputfile import echo
from hpcai.inputfile.split import MODES
from hpcai.record.machine import Environment, Rank
from hpcai.record.problem import problem_of
from hpcai.record.result import Result
from hpcai.report.text import LINE, free, layer_line, printed
from hpcai.results.layers import of_machine
from hpcai.workloads import registry

HEAD = "An explanation of the input/output parameters follows:"
ROW_TYPE = """\
T/V    : how the row was made: W, the mapping of groups (R by row, C by column), the
         workload ({workloads}), the all-reduce (0 none, {reductions}), the precision
         ({precisions}),
         the parallel mode ({modes}), the kernels (V vendor, C custom, A auto, F a file), bytes per
         gradient element on the wire."""
COLUMNS = {
    "N": "training samples credited over all groups in the timed region",
    "NB": "training samples per rank and step",
    "P": "models trained at once, each by its own group of ranks",
    "Q": "ranks that train one model together",
    "Time": "training time in seconds, of the slowest rank, validation passes excepted",
    "Gflops": "credited training operations (rule model) / Time, in 10^9 per second",
}
FOOT = """\
Each row is followed by its checks and scores; docs/METRICS.md derives every number.
All clocks start after a barrier, with the devices idle."""
COLUMN_WIDTH, INDENT = 92, " " * 9
NO_ROWS = "Tests of these sections make a table and no row:"


def banner(result: Result) -> str:
    """Everything above the first row."""
    given = result.input
    lines = [
        LINE,
        f"HPCAI bench {result.version}: a LINPACK for AI machines    {result.date}",
        f"Input  : {given.name}, schema {result.schema}, sha256 {given.digest}",
        *(f"Header : {free(header)}" for header in given.headers),
        LINE,
        "",
        *_explanation(sections := {section.name for section in given.sections}),
        *_tables(sections),
        "",
        "The following parameter values will be used:",
        "",
        *map(free, echo(problem_of(given))),
        "",
        *_options(given.overrides),
        *_machine(result.environment),
        "",
        *_rank_map(result.ranks, result.environment),
        "",
    ]
    return printed(lines)


def _explanation(sections: Collection[str]) -> Iterator[str]:
    """Explanation of the columns of a row, in general and for each workload of the run.

    Of others nothing is said, so that a new workload leaves the reports of all results as they are.
    """
    rows = [each for each in registry.workloads() if each.digit and each.name in sections]
    reductions = {REDUCTIONS[choice].digit: choice for choice in algorithms(AUTO)}
    yield HEAD
    yield from ROW_TYPE.format(
        workloads=", ".join(f"{each.digit} {each.name}" for each in rows) or "none",
        modes=", ".join(f"{digit} {mode}" for digit, mode in enumerate(MODES, start=1)),
        reductions=", ".join(f"{digit} {choice}" for digit, choice in sorted(reductions.items())),
        precisions=", ".join(f"{each.letter} {each.name}" for each in PRECISIONS.values()),
    ).splitlines()
    for column, meaning in COLUMNS.items():
        special = "".join(f"; of {each.name} {each.columns[column]}" for each in rows if column in each.columns)
        yield from wrap(f"{column:<7}: {meaning}{special}.", COLUMN_WIDTH, subsequent_indent=INDENT)
    yield from FOOT.splitlines()


def _tables(sections: Collection[str]) -> list[str]:
    """Explanation of the tables of the input's sections."""
    tables = [each for each in registry.workloads() if each.digit == 0 and each.name in sections]
    lines = [f"{table.name:<7}: {table.section.help}" for table in tables]
    return [NO_ROWS, *lines] if lines else []


def _options(overrides: Sequence[str]) -> list[str]:
    return [f"Command line: --set {free(option)}" for option in overrides] + [""] * bool(overrides)


def _machine(environment: Environment) -> list[str]:
    packages = ", ".join(f"{name} {version}" for name, version in environment.packages.items())
    nodes = f"{environment.nodes} node{'s' * (environment.nodes != 1)}"
    return [
        f"Machine : {nodes}; rank 0 on {environment.processor}, {environment.cpus} CPUs, "
        f"{environment.memory_bytes / 2**30:.1f} GiB, device {environment.device}, {environment.system}",
        f"Software: Python {environment.python}, {packages}",
        f"MPI     : {environment.mpi}",
        *map(layer_line, of_machine(environment)),
    ]


def _cell(grid: str, group: int | None, rank: int) -> str:
    return "idle" if group is None else f"{group}{place_in(grid, rank)}"


def _interface(name: str, address: str, environment: Environment) -> str:
    """Columns of the network interface, of several nodes."""
    return f"{name:<15} {address:<15} " if environment.nodes > 1 else ""


def _rank_map(ranks: Sequence[Rank], environment: Environment) -> list[str]:
    widths = [max(10, len(grid) + 2) for grid in environment.grids]
    heads = "".join(f"{grid:>{width}}" for grid, width in zip(environment.grids, widths, strict=True))
    lines = [
        f"{'Rank':>7}{heads}  {'Host':<24} {_interface('Interface', '', environment)}"
        f"{'Device':<10} {'Threads':>7}  CPUs    (P x Q, R by row, C by column: group)"
    ]
    if any(len(grid.split()) > 2 for grid in environment.grids):
        lines.append(f"{'':>7} replicas x shards x stages: group, and replica.shard.stage")
    for rank in ranks:
        cells = [_cell(*pair, rank.rank) for pair in zip(environment.grids, rank.groups, strict=True)]
        groups = "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        interface = _interface(rank.interface or "-", rank.address or "", environment)
        facts = f"{interface}{rank.device:<10} {rank.threads:>7}  {rank.cpus}"
        lines.append(f"{rank.rank:>7}{groups}  {rank.host:<24} {facts}")
    if environment.ranks > len(ranks):
        lines.append(f"{'...':>7} and {environment.ranks - len(ranks)} more ranks, condensed")
    return [*lines, *environment.idle, *(f"WARNING: {warning}" for warning in environment.warnings)]

"""Command line: parsed into options, without side effects."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from hpcai import __version__
from hpcai.errors import InputError
from hpcai.plan.node import THIS_ONE, PlannedNode

DESCRIPTION = """\
A LINPACK for AI machines: mpirun -np N python bench.py trains an ensemble of models on P x Q groups of the N ranks,
as the input file says, and prints an HPL-style table of verified results."""
EPILOGUE = """\
Files are written below results/ in the current directory. Exit codes: 0 every test passed, 1 a test failed,
2 illegal input or launch, 3 broken off; a rank that is killed ends the job with the launcher's own code, not 0,
and is named on standard error.
python -P -m hpcai.opcount --help counts the operations of a network."""


@dataclass(frozen=True)
class Options:
    """Options of the command line; `verify`, `resume` and `input` are paths as given."""

    input: str
    overrides: tuple[str, ...]
    plan: bool
    ranks: int | None
    write_input: bool
    verify: tuple[str, ...]
    schema: bool
    resume: str | None = None
    node: PlannedNode = THIS_ONE


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise InputError(f"command line: {message}; --help lists what is allowed")


def parse(arguments: Sequence[str]) -> Options:
    """The options of a command line; InputError if it is illegal, SystemExit(0) after --help and --version."""
    parsed = _parser().parse_args(arguments)
    overrides = [word for words in parsed.overrides for word in words]
    inputs = [*parsed.input, *(word for word in overrides if "=" not in word)]
    if len(inputs) > 1:
        raise InputError(f"command line: one input file at most, not {', '.join(inputs)}; --set takes KEY=VALUE")
    if parsed.ranks is not None and not parsed.plan:
        raise InputError("command line: --ranks goes with --plan; a run has the ranks that mpirun starts")
    node = PlannedNode(
        parsed.per_node, parsed.node_cores, parsed.node_memory, parsed.node_gpus, parsed.gpu_memory, parsed.link
    )
    if node.described and not parsed.plan:
        raise InputError("command line: descriptions of nodes go with --plan; a run has the nodes that it runs on")
    if parsed.resume is not None and (inputs or overrides):
        raise InputError("command line: --resume takes the input of the run that it goes on with, and no other")
    return Options(
        input=inputs[0] if inputs else "input.dat",
        overrides=tuple(word for word in overrides if "=" in word),
        plan=parsed.plan,
        ranks=parsed.ranks,
        write_input=parsed.write_input,
        verify=tuple(parsed.verify),
        schema=parsed.schema,
        resume=parsed.resume,
        node=node,
    )


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="bench.py", description=DESCRIPTION, epilog=EPILOGUE, allow_abbrev=False)
    parser.add_argument("input", nargs="*", metavar="INPUT", help="input file (default: input.dat)")
    parser.add_argument(
        "--set",
        dest="overrides",
        action="append",
        nargs="+",
        default=[],
        metavar="[SECTION.]KEY=VALUE",
        help="replace a setting of the input file; several values are separated by commas",
    )
    actions = parser.add_mutually_exclusive_group()
    actions.add_argument(
        "--plan", "--check", action="store_true", help="dry run: plan the tests, estimate memory and time, and stop"
    )
    actions.add_argument("--write-input", action="store_true", help="write the shipped input as new input.dat and stop")
    actions.add_argument(
        "--verify", nargs="+", default=(), metavar="FILE", help="recompute every derived number of a result.json"
    )
    actions.add_argument("--resume", metavar="FOLDER", help="go on with a run that was broken off")
    actions.add_argument("--schema", action="store_true", help="print the JSON schema of result.json")
    parser.add_argument("--ranks", type=_positive, metavar="N", help="with --plan: plan for N ranks")
    nodes = parser.add_argument_group("nodes to plan for", "with --plan; what is not given is as on this machine")
    nodes.add_argument("--per-node", type=_positive, metavar="N", help="ranks of a node")
    nodes.add_argument("--node-cores", type=_positive, metavar="N", help="cores of a node")
    nodes.add_argument("--node-memory", type=_size, metavar="SIZE", help="free memory of a node, as 512G")
    nodes.add_argument("--node-gpus", type=_count, metavar="N", help="GPUs of a node; 0: none")
    nodes.add_argument("--gpu-memory", type=_size, metavar="SIZE", help="free memory of a GPU, as 80G")
    nodes.add_argument("--link", type=_rate, metavar="GB/S", help="GB/s each way between nodes (default: 1.25)")
    parser.add_argument("--version", action="version", version=f"hpcai-bench {__version__}")
    return parser


def _positive(text: str) -> int:
    number = int(text) if text.isascii() and text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return number


def _count(text: str) -> int:
    return 0 if text == "0" else _positive(text)


def _size(text: str) -> int:
    """Bytes, with K, M, G or T in steps of 1024."""
    power = "KMGT".find(text[-1:]) + 1 if text else 0
    return _positive(text[:-1] if power else text) * 1024**power


def _rate(text: str) -> float:
    """Bytes per second, from GB/s."""
    try:
        number = float(text) * 1e9
    except ValueError:
        number = 0.0
    if not 0 < number < 1e15:
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate in GB/s above 0")
    return number

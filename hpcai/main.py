"""The main program: its phases in order, and the only place that catches all exceptions."""

import contextlib
import faulthandler
import io
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, NoReturn

from hpcai import cli
from hpcai.errors import HpcaiError, InputError, LaunchError, Refused
from hpcai.machine import launcher, library_variables, memory, node_resources, signals

if TYPE_CHECKING:
    from hpcai.inputfile import Problem

SPEAKS_FIRST = 2.0  # seconds in which the first rank prints


def command() -> NoReturn:
    """Entry point: run what the command line asks for and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        # headers and paths may have any script, whatever the terminal's encoding
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int:
    """The exit code: 0 all tests passed, 1 a test failed, 2 illegal input or launch, 3 broken off."""
    speaks = launcher.environment_rank(os.environ) == 0
    try:
        with contextlib.nullcontext() if speaks else _silence():
            options = cli.parse(arguments)
            alone = _without_mpi(options)
    except HpcaiError as error:
        return _refuse(error)
    return _benchmark(options) if alone is None else alone


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        yield


def _without_mpi(options: cli.Options) -> int | None:
    """Handle an option that needs no MPI; None if there is none. Ranks other than 0 write nothing."""
    if options.schema:
        from hpcai.record import schema

        return _print(schema.text())
    if options.verify:
        return max([_verify(Path(path)) for path in options.verify])
    if options.write_input:
        return _write_input(Path("input.dat"))
    if options.plan:
        return _check(options)
    return None


def _print(text: str) -> int:
    try:
        print(text, flush=True)
    except BrokenPipeError:  # the reader has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _verify(path: Path) -> int:
    from hpcai.verification import folder, verify

    file = path / "result.json" if path.is_dir() else path
    found = verify.differences(file)
    if found and (interrupted := folder.interruption(file.parent)):
        _print(f"{path}: BROKEN OFF: {interrupted}")
        return HpcaiError.exit_code
    verdict = "NOT VERIFIED" if found else verify.sound_message(file)
    _print("\n".join([*found, *(f"{path}: {note}" for note in verify.notes(file)), f"{path}: {verdict}"]))
    return 1 if found else 0


def _write_input(path: Path) -> int:
    from hpcai.inputfile import shipped_text

    if launcher.environment_rank(os.environ) == 0:
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(shipped_text())
        except OSError as error:
            raise InputError(f"cannot write {path.absolute()}: {error.strerror}") from None
    return _print(f"wrote {path.absolute()}")


def _check(options: cli.Options) -> int:
    """Plan without MPI: the launcher's environment tells for how many ranks, and rank 0 speaks."""
    ranks = options.ranks or launcher.declared_size(os.environ)
    problem = _parsed(options, ranks)
    if launcher.environment_rank(os.environ) == 0:
        memory.suspend_collection()
        from hpcai.plan import planner
        from hpcai.report import plan

        planned = planner.plan(problem, ranks, options.node)
        _print(plan.text(problem.name, planned))
        return 0 if plan.fits(planned) else InputError.exit_code
    return 0


def _source(problem: "Problem") -> tuple[str, tuple[str, ...], str]:
    """What every rank reads the problem from; rank 0 has checked it against the files and the number of ranks."""
    return problem.text, problem.overrides, problem.name


def _parsed(options: cli.Options, ranks: int) -> "Problem":
    """The problem of the input file; InputError with all its errors."""
    from hpcai.data import catalog
    from hpcai.inputfile import parse

    path = Path(options.input)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"cannot read {path} in {Path.cwd()}: {error.strerror}; `bench.py --write-input` writes an input.dat there"
        ) from None
    return parse(content, options.overrides, ranks, catalog.check, path.name)


def _chosen(options: cli.Options, ranks: int) -> "Problem":
    """The problem of the input file, or of the run that is resumed."""
    if options.resume is None:
        return _parsed(options, ranks)
    from hpcai import resumption
    from hpcai.record.problem import problem_of

    return problem_of(resumption.left(Path(options.resume)).input)


def _benchmark(options: cli.Options) -> int:
    """Start MPI, agree on the problem and run it; an error on one rank ends the job on all of them."""
    try:
        node_resources.prepare(os.environ)
    except LaunchError as error:
        return _refuse(error, launcher.local_rank(os.environ))
    from hpcai.comm import starting

    try:
        starting.start_mpi(os.environ)
    except LaunchError as error:
        return _refuse(error, patience=SPEAKS_FIRST)
    from hpcai.comm import rank_watch
    from hpcai.comm import world as worlds
    from hpcai.inputfile import parse

    given = library_variables.settings(os.environ)  # before this program sets any
    library_variables.quiet(os.environ)
    memory.suspend_collection()
    faulthandler.enable(sys.__stderr__ or 2)  # a crash in a library shows the Python stacks of its rank
    signals.record_signals()
    worlds.abort_on_early_exit()
    try:
        world = worlds.join()
        world.interface = rank_watch.begin(world.comm, world.node, world.host)
        text, overrides, name = worlds.agreed(world.comm, lambda: _source(_chosen(options, world.size)))
        problem = parse(text, overrides, name=name)
        rank_watch.watch(float(problem.run["WATCHDOG"]))
        placement = worlds.bind_to_processors(world)
        from hpcai import run  # imports torch, whose threads are settled now

        code = run.run(problem, world, placement, given, Path(options.resume) if options.resume else None)
    except Refused as error:
        rank_watch.explain(str(error))
        code = _refuse(error)
    except BaseException as error:  # noqa: BLE001 - the job ends here, whatever it was
        worlds.abort_because(error)
    worlds.finish(code)
    return code


def _refuse(error: HpcaiError, rank: int | None = None, patience: float = 0.0) -> int:
    """The exit code of an error that all ranks have; the first rank prints it. rank: of its node, if of a node's.

    patience: seconds that the others wait, where a launcher ends the job with the first rank that ends.
    """
    if (launcher.environment_rank(os.environ) if rank is None else rank) == 0:
        print(f"hpcai: {error}", file=sys.stderr, flush=True)
    else:
        sleep(patience)
    return error.exit_code

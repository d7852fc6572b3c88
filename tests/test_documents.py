"""Commands in the documents work: `sh` blocks are run, in `console` blocks verbs, options and files are looked up.

The copy they are run in has a small input.dat. Verbs of make that would start this test again, or need a network, are
run by `make --dry-run` only.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from checkout import copy_checkout
from launch import ROOT, Finished, Job, hidden, mpirun

DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("inputs/*.md")])
TIMEOUT = 240.0
MOST_RANKS = 4  # of a command that is run

SMALL_INPUT = """HPCAI benchmark input file
Two ranks, for seconds
documents      OUTPUT
[ensemble]
fashion        DATASET
512            SAMPLES
2              GROUPS
1              DEGREE
32             BATCH
1              EPOCHS
0.001          TARGET
"""

MAKE = """#!/bin/bash
case " $* " in
*" run "* | "  " | *" help "*) exec {make} -o .venv/.complete -o .venv/.developer "$@" ;;
*) exec {make} --dry-run "$@" >/dev/null ;;
esac
"""


class Block(NamedTuple):
    """A fenced block of a document; the line is that of its first command."""

    document: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"


def blocks(document: Path) -> Iterator[Block]:
    """The fenced blocks of a document."""
    text = document.read_text(encoding="utf-8")
    for match in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield Block(document, text.count("\n", 0, match.start(2)) + 1, match[1], match[2])


BLOCKS = [block for document in DOCUMENTS for block in blocks(document)]
# Runs of other documents, other files and more ranks are variations of those in README.md.
VARIATIONS = (
    *("docs/FIGURES.md", "docs/LANGUAGE.md", "docs/RULES.md", "docs/TUNING.md", "docs/WEATHER.md"),
    "inputs/README.md",
)
IN_CI = ("README.md", "CONTRIBUTING.md", "docs/OPERATING.md", "docs/RANKING.md")


def is_variation(block: Block) -> bool:
    """Whether a block trains something that is not in the first run of README.md."""
    started = any(word in block.text for word in ("mpirun", "reframe", "pytest"))
    return started or str(block).partition(":")[0] in VARIATIONS


def marks(block: Block) -> list[pytest.MarkDecorator]:
    """Fast, in continuous integration, or neither."""
    if not is_variation(block):
        return []
    return [pytest.mark.slow if str(block).partition(":")[0] in IN_CI else pytest.mark.exhaustive]


RUN = [
    pytest.param(block, marks=marks(block), id=str(block))
    for block in BLOCKS
    if block.language == "sh"
]
SHOWN = [block for block in BLOCKS if block.language == "console"]


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """A copy of the checkout for each document, in which its blocks are run in sequence."""
    folder = tmp_path_factory.mktemp("documents")
    return cache(lambda document: make_copy(folder / document.relative_to(ROOT)))


def make_copy(folder: Path) -> Path:
    """A copy that uses this Python's environment; with a `make` that excludes some verbs."""
    checkout = copy_checkout(folder / "checkout")
    (checkout / ".venv").symlink_to(sys.prefix)
    (checkout / "input.dat").write_text(SMALL_INPUT)
    programs = folder / "bin"
    programs.mkdir()
    (programs / "make").write_text(MAKE.format(make=shutil.which("make")))
    (programs / "make").chmod(0o755)
    return checkout


def run(script: str, folder: Path) -> Finished:
    """Run a script in the copy, like a reader who has just changed into it."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    environment = {**inherited, **hidden(MOST_RANKS), "PATH": f"{folder.parent / 'bin'}:{inherited['PATH']}"}
    with Job(["bash", "-euo", "pipefail", "-c", script], folder, environment) as job:
        return job.wait(TIMEOUT)


@pytest.mark.skipif(mpirun() is None, reason="NO mpirun: DOCUMENTS NOT RUN")
@pytest.mark.sequence
@pytest.mark.parametrize("block", RUN)
def test_commands_run(block: Block, scratch: Callable[[Path], Path]) -> None:
    finished = run(block.text, scratch(block.document))
    assert finished.returncode == 0, f"{block}\n{block.text}\n{finished.stdout}{finished.stderr}"
    assert not finished.leftovers


@pytest.mark.slow
def test_commands_that_are_only_shown_are_valid(scratch: Callable[[Path], Path]) -> None:
    options, checkout = options_of_bench(), scratch(ROOT / "README.md")
    shown = [(block, command) for block in SHOWN for command in commands(block.text)]
    wrong = [f"{block}: {command}" for block, command in shown if not could_run(command, options, checkout)]
    assert not wrong


def could_run(command: str, options: set[str], checkout: Path) -> bool:
    """Whether make has the verbs, the program has the options, and this checkout has the files of a command."""
    words = shlex.split(command, comments=True)
    verbs = words[words.index("make") + 1 :] if "make" in words else []
    programs = [place for place, word in enumerate(words) if word.endswith(("bench.py", "hpcai-bench"))]
    asked = {word.partition("=")[0] for word in words[programs[0] :] if word.startswith("--")} if programs else set()
    known = not verbs or run(shlex.join(["make", "--dry-run", *verbs]), checkout).returncode == 0
    return known and asked <= options and not any(map(is_vanished, words))


def commands(text: str) -> Iterator[str]:
    """Commands of a console block: the text after each `$`, or every line if no line begins with one."""
    lines = text.replace("\\\n", " ").splitlines()
    prompted = [line[2:] for line in lines if line.startswith("$ ")]
    yield from filter(None, prompted or lines)


def options_of_bench() -> set[str]:
    """Options in the help text."""
    finished = subprocess.run([sys.executable, "bench.py", "--help"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return set(re.findall(r"--[a-z][a-z-]*", finished.stdout.decode()))


def is_vanished(word: str) -> bool:
    """Whether a word is a path into a folder of this checkout that does not exist."""
    top, slash, _ = word.partition("/")
    inside = bool(slash) and bool(top.strip(".")) and (ROOT / top).is_dir() and top not in (".venv", "results")
    plain = re.fullmatch(r"[\w./-]+", word) is not None
    return inside and plain and not (ROOT / word).exists()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_named_files_exist(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    vanished = {word for word in re.findall(r"`([^`\s]+)`", text) if is_vanished(word)}
    links = {link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link}
    vanished |= {link for link in links if link and not (document.parent / link).exists()}
    assert not vanished, f"{document.relative_to(ROOT)} names missing files: {sorted(vanished)}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_block_has_a_known_kind(document: Path) -> None:
    unknown = [str(block) for block in blocks(document) if block.language not in ("sh", "console", "text", "python")]
    assert not unknown, f"sh blocks are run, console blocks looked up, text and python blocks shown: {unknown}"


def test_a_wrong_command_is_detected(scratch: Callable[[Path], Path]) -> None:
    options, checkout = {"--set"}, scratch(ROOT / "README.md")
    assert run("make no-such-verb", checkout).returncode != 0
    assert run("python3 no_such_file.py\ntrue", checkout).returncode != 0
    assert could_run("mpirun --bind-to none -np 64 python bench.py input.dat --set EPOCHS=2", options, checkout)
    assert could_run("make install GPU=no  # on a login node", options, checkout)
    assert not could_run("python bench.py --no-such-option", options, checkout)
    assert not could_run("make no-such-verb", options, checkout)
    assert not could_run("python tests/no_such_file.py", options, checkout)
    assert is_vanished("tests/no_such_file.py")
    assert not is_vanished("tests/launch.py")
    assert not is_vanished("results/mine/report.txt")

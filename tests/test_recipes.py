"""Recipes of contrib/: the Spack package, the definitions of containers, and the module file.

The module file is loaded by the real `modulecmd`; of the others, whose tools are not here, what can be read is compared
with setup.py and the checkout.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import setuptools
from launch import ROOT
from machine_requirements import missing
from packaging.requirements import Requirement
from packaging.version import Version

import hpcai

CONTRIB = ROOT / "contrib"
SPACK = CONTRIB / "spack/packages/hpcai_bench/package.py"
CONTAINERS = CONTRIB / "container"
MODULE = CONTRIB / "modulefiles/hpcai" / hpcai.__version__
MODULECMD = [*Path("/usr").glob("lib/*/modulecmd.tcl"), *Path("/usr").glob("share/[mM]odules/libexec/modulecmd.tcl")]
INSTRUCTIONS = {"FROM", "RUN", "COPY", "WORKDIR", "ENV", "CMD"}
SECTIONS = {"files", "post", "environment", "runscript", "test", "labels"}
EXTRAS = {"cuda": ("gpu",), "plots": ("plots", "page")}


def set_up() -> dict[str, Any]:
    """What setup.py declares."""
    with patch.object(setuptools, "setup") as called:
        code = compile((ROOT / "setup.py").read_text(), "setup.py", "exec")
        exec(code, {"__file__": str(ROOT / "setup.py"), "__name__": "__main__"})
    return dict(called.call_args.kwargs)


def directives(name: str) -> Iterator[ast.Call]:
    """Calls of a directive in the Spack package."""
    for node in ast.walk(ast.parse(SPACK.read_text("utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == name:
            yield node


def spack_needs(variant: str) -> dict[str, str]:
    """Version ranges by package, of a variant or always."""
    found = {}
    for call in directives("depends_on"):
        words = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
        match = re.fullmatch(r"(?:py-)?([a-z0-9-]+)(?:@([0-9.]*):([0-9.]*))?.*", ast.literal_eval(call.args[0]))
        assert match
        if match[2] and words.get("when", "") == (f"+{variant}" if variant else ""):
            found[match[1]] = f"{match[2]}:{match[3]}"
    return found


def bounds(requirement: str) -> tuple[str, str]:
    """Name and range of a requirement in Spack's notation."""
    parsed = Requirement(requirement)
    least = next(each.version for each in parsed.specifier if each.operator == ">=")
    below = next((int(each.version) - 1 for each in parsed.specifier if each.operator == "<"), "")
    return re.sub("-cuda13x$", "", parsed.name.lower()), f"{least}:{below}"


def test_the_spack_package_compiles() -> None:
    subprocess.run([sys.executable, "-c", f"compile(open({str(SPACK)!r}).read(), 'package.py', 'exec')"], check=True)
    (version,) = (ast.literal_eval(call.args[0]) for call in directives("version"))
    assert version == hpcai.__version__


def test_the_spack_package_needs_what_setup_declares() -> None:
    declared = set_up()
    always = spack_needs("")
    assert always.pop("python") == f"{declared['python_requires'].removeprefix('>=')}:"
    assert always.pop("setuptools") == "64:"
    assert always == dict(map(bounds, declared["install_requires"]))
    for variant, extras in EXTRAS.items():
        wanted = dict(bounds(need) for extra in extras for need in declared["extras_require"][extra])
        assert spack_needs(variant) == wanted, variant


def exists_in_checkout(text: str) -> None:
    """Every path below /opt/hpcai that is not made by the installation, and every verb of make."""
    for path in re.findall(r"/opt/hpcai/([\w./-]+)", text):
        assert path.startswith(".venv") or path == "results" or (ROOT / path).exists(), path
    verbs = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    called = re.findall(r"(?:^ *|RUN |&& )make ([a-z-]+)", text, re.MULTILINE)
    assert called and {*called} <= {*verbs}
    python = re.search(r"python:([0-9.]+)-slim", text)
    assert python and Version(python[1]) >= Version("3.11")


def test_the_dockerfile_has_legal_instructions_and_paths() -> None:
    text = (CONTAINERS / "Dockerfile").read_text("utf-8")
    whole = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    lines = [line.split(None, 1) for line in whole.splitlines() if line.strip()]
    assert lines[0][0] == "FROM" and lines[-1][0] == "CMD" and {word for word, _ in lines} <= INSTRUCTIONS
    assert isinstance(ast.literal_eval(lines[-1][1]), list)
    for word, rest in lines:
        if word == "RUN":
            assert subprocess.run(["sh", "-n", "-c", rest], check=False).returncode == 0, rest
    exists_in_checkout(text)
    assert {".venv", "results", ".git"} <= {*(CONTAINERS / "Dockerfile.dockerignore").read_text().split()}


def test_the_apptainer_definition_has_legal_sections_and_paths() -> None:
    text = (CONTAINERS / "hpcai.def").read_text("utf-8")
    head, *parts = re.split(r"^%", text, flags=re.MULTILINE)
    keys = dict(line.split(": ") for line in head.splitlines() if ": " in line and not line.startswith("#"))
    assert {*keys} == {"Bootstrap", "From"}
    bodies = dict(part.split("\n", 1) for part in parts)
    assert {*bodies} == SECTIONS
    for name in ("post", "environment", "runscript", "test"):
        assert subprocess.run(["sh", "-n", "-c", bodies[name]], check=False).returncode == 0, name
    exists_in_checkout(text)


def loaded(prefix: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """What `module load` of the module file, with another prefix, has a shell do."""
    if not MODULECMD:
        missing("NO MODULECMD: environment-modules is not installed", "environment-modules")
    place = tmp_path / "modules/hpcai" / MODULE.name
    place.parent.mkdir(parents=True)
    text = MODULE.read_text("utf-8")
    assert "\nset prefix /opt/hpcai\n" in text
    place.write_text(text.replace("set prefix /opt/hpcai", f"set prefix {prefix}"))
    environment = {"PATH": "/usr/bin:/bin", "MODULEPATH": str(tmp_path / "modules"), "HOME": str(tmp_path)}
    command = [str(MODULECMD[0]), "sh", "load", "hpcai"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)


def test_the_module_puts_the_environment_first(tmp_path: Path) -> None:
    (tmp_path / "opt/.venv/bin").mkdir(parents=True)
    (tmp_path / "opt/.venv/.complete").touch()
    done = loaded(tmp_path / "opt", tmp_path)
    shell = ["sh", "-c", f"{done.stdout}\necho $HPCAI_ROOT $PATH"]
    shown = subprocess.run(shell, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False)
    root, path = shown.stdout.split()
    assert root == str(tmp_path / "opt") and path.split(":")[0] == f"{root}/.venv/bin"


def test_the_module_of_an_incomplete_installation_says_so(tmp_path: Path) -> None:
    done = loaded(tmp_path / "nowhere", tmp_path)
    assert "HPCAI_ROOT" not in done.stdout
    assert f"there is no complete installation in {tmp_path}/nowhere" in done.stderr

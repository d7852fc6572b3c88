"""The table of docs/FAULTS.md, of the planted faults and what finds each: fault_table.py PAGE renews it."""

import ast
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from marked_table import renew

JOBS = Path(__file__).with_name("jobs")
sys.path.append(str(JOBS))

from found_by import FOUND_BY  # noqa: E402
from planted import CLASSES  # noqa: E402

# Test modules that have dictionaries of the checks that find a fault, by its name.
TABLES_IN = (
    "test_faults", "test_gradient_faults", "test_kernel_faults", "test_weather_planted", "test_pipeline_training",
    "test_tensor_optimisers", "test_tensor_training", "test_step_faults", "test_content_faults", "test_vote_faults",
    "test_network_faults", "test_workload_nas_faults", "test_search_resume", "test_language_faults",
)  # fmt: skip
PROGRAM = "tests/fault_table.py"
HEAD = "| fault | class | found by |\n|---|---|---|\n"
OPTIMISERS = "optimiser_faults"


def functions(module: str) -> dict[str, str]:
    """The faults of a module, functions that return a Fault and need no argument, and what they are."""
    body = ast.parse((JOBS / f"{module}.py").read_text(encoding="utf-8")).body
    found = [node for node in body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
    faults = [node for node in found if not node.args.args and node.returns and ast.unparse(node.returns) == "Fault"]
    return {node.name: (ast.get_docstring(node) or "").partition("\n")[0] for node in faults}


def modules() -> list[str]:
    """Modules that plant faults."""
    return [path.stem for path in sorted(JOBS.glob("*.py")) if functions(path.stem)]


def faults_of_optimisers() -> dict[str, list[str]]:
    """The optimisers of the trainings into which a fault is planted, by the fault."""
    found: dict[str, list[str]] = {}
    by_optimiser: dict[str, dict[str, Any]] = import_module("optimiser_changes").FAULTS
    for optimiser, faults in by_optimiser.items():
        for fault in faults:
            found.setdefault(fault, []).append(optimiser)
    return found


def checks() -> dict[str, set[str]]:
    """Names of the checks that find a fault, from the tests that plant it."""
    found: dict[str, set[str]] = {}
    for module in map(import_module, TABLES_IN):
        for table in _tables([*vars(module).values()]):
            for fault, names in table.items():
                found.setdefault(fault, set()).update(names)
    return found


def _tables(values: list[Any]) -> Iterator[Mapping[str, set[str]]]:
    for value in values:
        if isinstance(value, dict) and value and all(isinstance(item, set) for item in value.values()):
            yield value
        elif isinstance(value, dict) and all(isinstance(item, dict) for item in value.values()):
            yield from _tables([*value.values()])


def rows() -> Iterator[tuple[str, str, str]]:
    """Fault, class and what finds it. KeyError for a fault of which no test says what finds it."""
    by_checks, by_files = checks(), {each.fault: each.found for each in import_module("test_file_faults").FAULTS}
    replayed = " or ".join(sorted(import_module("test_optimiser_faults").REPLAYED))
    for kind, of_class in CLASSES.items():
        for module, faults in of_class.items():
            texts = {} if module == OPTIMISERS else functions(module)
            for fault in faults:
                named = f"{fault.replace('_', ' ')}: {texts[fault]}" if texts.get(fault) else fault.replace("_", " ")
                if module == OPTIMISERS:
                    named += f" ({', '.join(faults_of_optimisers()[fault])})"
                    found = replayed
                elif fault in by_files:
                    found = f"the run's verification of its files: `{by_files[fault].strip(': ')}`"
                else:
                    found = FOUND_BY.get(fault) or "; ".join(sorted(by_checks[fault]))
                yield named.removesuffix("."), kind, found


def table() -> str:
    """The table as text."""
    return HEAD + "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in rows())


if __name__ == "__main__":
    renew(PROGRAM, table())

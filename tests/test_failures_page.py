"""The table of failures: what it says is what the program says, and each row has a test."""

import ast
import re

import pytest
from failures import FAILURES, PROGRAM, Failure, table
from launch import ROOT
from marked_table import renewed

SOURCE = "\n".join(path.read_text("utf-8") for path in sorted((ROOT / "hpcai").rglob("*.py")))
LEAST = 6  # letters of a fragment that say something


def test_the_page_has_the_table_of_today() -> None:
    page = (ROOT / "docs/FAILURES.md").read_text("utf-8")
    assert PROGRAM in page and renewed(page, PROGRAM, table()) == page


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: failure.what)
def test_a_row_has_the_words_of_the_program_and_a_test(failure: Failure) -> None:
    fragments = [part.strip(" ;:,") for part in failure.message.split("...")]
    assert not failure.message or any(len(part) >= LEAST for part in fragments)
    assert all(part in SOURCE for part in fragments), failure.message
    file, _, function = failure.test.partition(".")
    tree = ast.parse((ROOT / f"tests/{file}.py").read_text("utf-8"))
    assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert re.fullmatch(r"\d|launcher's", failure.code)

"""docs/FAULTS.md: it has every planted fault, and nothing else, and is up to date."""

from collections import Counter

import fault_table
from found_by import FOUND_BY
from launch import ROOT
from marked_table import renewed
from planted import CLASSES

PAGE = ROOT / "docs" / "FAULTS.md"


def declared(module: str) -> list[str]:
    return [fault for of_class in CLASSES.values() for fault in of_class.get(module, ())]


def test_every_planted_fault_has_one_class() -> None:
    for module in fault_table.modules():
        assert Counter(declared(module)) == Counter({*fault_table.functions(module)}), module
    assert Counter(declared(fault_table.OPTIMISERS)) == Counter([*fault_table.faults_of_optimisers()])


def test_every_row_is_a_planted_fault() -> None:
    named = {module for of_class in CLASSES.values() for module in of_class}
    assert named == {*fault_table.modules(), fault_table.OPTIMISERS}
    assert {*FOUND_BY} <= {fault for module in named for fault in declared(module)}


def test_every_fault_is_found_or_the_reason_stands_there() -> None:
    rows = [*fault_table.rows()]
    assert len(rows) >= 40 and all(found for _, _, found in rows)
    unfound = [fault for fault, _, found in rows if found.startswith("nobody")]
    assert unfound == ["processor not in the table", "overflow on one rank"]


def test_the_page_is_up_to_date() -> None:
    page = PAGE.read_text("utf-8")
    made = renewed(page, fault_table.PROGRAM, fault_table.table())
    assert fault_table.PROGRAM in page and made == page, "renew it: python tests/fault_table.py docs/FAULTS.md"

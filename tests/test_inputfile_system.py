"""The KEY SYSTEM: free text, echoed so that it is read again, and shown where results are listed."""

import pytest
from small_run import GOLDEN
from test_inputfile import SMALL
from test_inputfile_refused import refusal

from hpcai.inputfile import echo, parse
from hpcai.inputfile.key import MOST_TEXT
from hpcai.ranking.from_report import submission
from hpcai.ranking.report_parser import parsed
from hpcai.ranking.submission import Submission

HEADERS, SECTION = "HPC SYSTEM TEST\nSecond header\n", "[comm]\n"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("Some Centre, 3 nodes SYSTEM of which this is the name", "Some Centre, 3 nodes"),
        ("  a \t b   system", "a b"),
        ("7 SYSTEM", "7"),
        ("Some System 3 SYSTEM of a system", "Some System 3"),
        ("x" * MOST_TEXT + " SYSTEM", "x" * MOST_TEXT),
        ("", "unnamed"),
        ("system LEVEL", "unnamed"),
    ],
)
def test_a_system_is_read_and_its_echo_is_read_again(line: str, name: str) -> None:
    problem = parse(f"{HEADERS}{line}\n{SECTION}")
    assert problem.headers[0] == "HPC SYSTEM TEST"
    assert problem.run["SYSTEM"] == name
    again = parse("\n".join(["One", "Two", *echo(problem)]))
    assert again.run == problem.run


def test_an_option_names_the_system() -> None:
    assert parse(HEADERS + SECTION, ["SYSTEM=Some Centre"]).run["SYSTEM"] == "Some Centre"


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("SYSTEM=a BATCH b", "BATCH is a KEY"),
        ("SYSTEM=THE SYSTEM", "SYSTEM is a KEY"),
        ("SYSTEM=a#b", "holds # or !"),
        ("SYSTEM=a\xa0b", "holds U+00A0, which is not printable"),
        ("SYSTEM=\ufdd0", "holds U+FDD0, which is not printable"),
        ("DATASET=fashion:/a\ufdd0b", "holds U+FDD0, which is not printable"),
        ("SYSTEM=[ensemble]", "begins with ["),
        ("SYSTEM=" + "x" * (MOST_TEXT + 1), f"has {MOST_TEXT + 1} characters; allowed: words without # and !"),
        ("SYSTEM=", "SYSTEM has no value before it"),
    ],
)
def test_what_the_grammar_could_not_read_again_is_refused(option: str, says: str) -> None:
    assert says in refusal(SMALL, option)


def test_a_report_has_the_name_before_the_machine() -> None:
    lines = (GOLDEN / "report.txt").read_text("utf-8").splitlines()
    kept = [line for line in lines if line.split()[1:2] != ["SYSTEM"]]
    level = next(place for place, line in enumerate(kept) if line.split()[1:2] == ["LEVEL"])
    kept.insert(level, "Some Centre    SYSTEM")
    named = "".join(f"{line}\n" for line in kept)
    found = submission(parsed(named), "here", "")
    assert isinstance(found, Submission) and found.lines
    assert {line.system.partition(", ")[0] for line in found.lines} == {"Some Centre"}

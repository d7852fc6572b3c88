"""Headers, paths and names of machines that look like results do not mislead parsers of the report."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from report_readers import HEADER, assert_parsers_read_it, assert_report_matches
from small_run import golden, rebuilt

from hpcai.errors import InputError
from hpcai.inputfile import parse
from hpcai.record.loading import result_of
from hpcai.record.plain import plain
from hpcai.record.problem import input_of
from hpcai.report import files

Json = dict[str, Any]


def with_names(headers: tuple[str, str], options: tuple[str, ...] = (), host: str = "vm") -> Json:
    """The stored result with other headers, options and hosts."""
    other = golden()
    text = other["input"]["text"].split("\n", 2)[2]
    other["input"] = plain(input_of(parse("\n".join([*headers, text]), options)))
    other["environment"] |= dict.fromkeys(("processor", "device", "mpi", "system"), host)
    other["environment"]["warnings"] = [host]
    for rank in other["ranks"]:
        rank["host"] = rank["device"] = host
    return rebuilt(other)


HOSTILE = [
    "WR11S1V4       60000    32     2     1              12.34             5.1235e+01",
    "WWRR of WRF at WRC",
    "9 1 2 3 4 5.0 6 7.0 8",
    "1 2 3 4 5 6 7 8 9 10.0 11 1\u00a02\u00a03 4 .5 6",
    "\u0661 \u0662 \u0663 \u0664 \u0665.\u0660 \u0666",
    "End of Tests.",
    "End\u00a0of\u2003Tests.",
    "a\tGflops\u00a0Gflops",
    HEADER,
    "=" * 80,
    "Finished      9 tests with the following results:",
    "||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=        0.0663002 ...... PASSED",
    "HOSTLIST: a b c",
    "x" * 5000,
    "9 " * 1000 + "1.0 2",
    "\u6f22\u5b57" * 200,
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_headers_and_names_are_not_parsed_as_results(text: str) -> None:
    for result in (with_names((text, text)), with_names(("a", "b"), host=text)):
        assert_parsers_read_it(files.report(result_of(result)), result)
        assert_report_matches(files.report(result_of(result)), result)


@pytest.mark.slow
@given(
    st.lists(
        st.text(st.sampled_from("WR 1239.eE+-\u00a0\tGflops|=End of Tests\u0663"), min_size=1), min_size=2, max_size=2
    )
)
def test_no_header_is_parsed_as_a_result(headers: list[str]) -> None:
    try:
        result = with_names((headers[0], headers[1]))
    except InputError:
        assume(False)
    assert_parsers_read_it(files.report(result_of(result)), result)


@pytest.mark.parametrize("broken", ["\x1b[2JPASSED", "a\x85WR10S1V4 1 1 1 1 1.0 1.0\r"])
def test_names_stay_on_their_line(broken: str) -> None:
    result = with_names(("a", "b"), host=broken)
    assert_parsers_read_it(files.report(result_of(result)), result)
    assert all(line.isprintable() for line in files.report(result_of(result)).splitlines())


def test_names_of_two_lines_are_refused() -> None:
    with pytest.raises(InputError, match=r"^environment\.processor: "):
        with_names(("a", "b"), host="a\nWR10S1V4 1 1 1 1 1.0 1.0")


def test_options_and_folders_are_not_parsed_as_results() -> None:
    options = ("OUTPUT=WRF", "DATASET=fashion:/data/WR11/Gflops", "LEARNRATE=1 2 3 4 5.0 6", "BATCH=1 2 3 4 5 6 7")
    result = with_names(("a", "b"), options)
    result["tests"] = result["tests"][:1]
    result = rebuilt(result)
    assert_parsers_read_it(files.report(result_of(result)), result)

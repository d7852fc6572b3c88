"""Sections of tables: lists that belong to one test, their own defaults, and refused values."""


import pytest
from msgspec import convert
from sample_input import SMALL

from hpcai.errors import InputError
from hpcai.inputfile import echo, parse, shipped_text
from hpcai.inputfile.key import MOST_VALUES
from hpcai.record.plain import plain
from hpcai.record.problem import Input, input_of, problem_of

HEADERS = "header one\nheader two\n"


def refusal(text: str, ranks: int | None = None, *options: str) -> str:
    with pytest.raises(InputError) as caught:
        parse(HEADERS + text, options, ranks=ranks)
    return str(caught.value)


def test_sections_of_tables_may_be_empty() -> None:
    kernels, comm = parse(HEADERS + "[kernels]\n[comm]").cases(4)
    assert (kernels.index, kernels.workload, comm.index, comm.workload) == (1, "kernels", 2, "comm")
    assert {key: kernels[key] for key in ("SHAPES", "BATCH", "RESOLUTION")} == {
        "SHAPES": ("auto",), "BATCH": 32, "RESOLUTION": 0,
    }  # fmt: skip
    assert (comm["GROUPS"], comm["DEGREE"], comm["MAPPING"]) == (4, 1, "row")
    assert comm["SIZES"] == tuple(1024 * 4**power for power in range(10)) and comm["SIZES"][-1] == 256 * 2**20
    assert "GROUPS" not in kernels.settings


def test_all_values_of_a_list_belong_to_one_test() -> None:
    text = "[kernels]\nresnet50 512 1e3 auto SHAPES\n8 32 BATCH\n[comm]\n4 1K 1.5K 1G SIZES\n1 2 GROUPS\n2 1 DEGREE\n"
    cases = parse(HEADERS + text).cases(2)
    assert [case["BATCH"] for case in cases if case.workload == "kernels"] == [8, 32]
    assert {case["SHAPES"] for case in cases if case.workload == "kernels"} == {("resnet50", 512, 1000, "auto")}
    assert [case["SIZES"] for case in cases if case.workload == "comm"] == [(4, 1024, 1536, 2**30)] * 2
    assert [case.index for case in cases] == [1, 2, 3, 4]


def test_cases_are_counted_over_all_sections_in_the_order_of_the_file() -> None:
    problem = parse(SMALL.replace("[ensemble]", "2 REPEAT\n[comm]\n[ensemble]") + "[kernels]\n")
    cases = problem.cases(2)
    assert [case.index for case in cases] == [*range(1, 13)]
    assert [case.workload for case in cases] == ["comm"] * 2 + ["ensemble"] * 8 + ["kernels"] * 2
    assert [case["SEED"] for case in cases[-2:]] == [1, 2]


def test_the_echo_is_parsed_as_the_same_and_has_bytes_in_units() -> None:
    problem = parse(HEADERS + "[kernels]\nresnet8 64 SHAPES\n[comm]\n1000 1536 4K 3M 1024M SIZES\n")
    lines = echo(problem)
    assert "1000 1536 4K 3M 1G SIZES" in lines and "resnet8 64     SHAPES" in lines
    assert "0              GROUPS       (default)" in lines and "32             BATCH        (default)" in lines
    assert parse(HEADERS + "\n".join(lines)).cases(3) == problem.cases(3)


def test_the_shipped_problem_has_tables() -> None:
    text = shipped_text()
    names = [section.name for section in parse(text).sections]
    assert names == ["kernels", "comm", "ensemble", "ensemble", "weather", "nas"]
    assert max(map(len, text.splitlines())) <= 200 and "1K 64K 4M 64M  SIZES        bytes" in text


def test_the_record_is_json_and_gives_the_same_cases() -> None:
    problem = parse(HEADERS + "[kernels]\nresnet8 64 SHAPES\n[comm]\n")
    record = plain(input_of(problem))
    again = problem_of(convert(record, Input))
    assert again == problem and again.cases(3) == problem.cases(3)
    assert record["sections"][0]["keys"]["SHAPES"] == {"values": ["resnet8", 64], "default": False}
    assert record["sections"][1]["keys"]["GROUPS"] == {"values": [0], "default": True}


def test_the_command_line_changes_only_the_named_section() -> None:
    problem = parse(SMALL + "[kernels]\n[comm]\n", ["kernels.BATCH=4,8", "comm.SIZES=64K 1M", "SHAPES=3,auto"])
    values = {section.name: section.values for section in problem.sections}
    assert values["kernels"]["BATCH"] == (4, 8) and values["ensemble"]["BATCH"] == (32, 64)
    assert values["comm"]["SIZES"] == (65536, 2**20) and values["kernels"]["SHAPES"] == (3, "auto")


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        ("[kernels]\nresnet51 SHAPES", ["line 4", "(resnet51 looks like resnet14)", "auto | resnet8 |"]),
        ("[kernels]\n0 SHAPES", ["SHAPES: 0 is out of range", "a whole number from 1 to"]),
        ("[kernels]\n2.5 SHAPES", ["2.5 is not a whole number"]),
        ("[kernels]\nsquare SHAPES", ["square is unknown"]),
        (f"[kernels]\n{'8 ' * (MOST_VALUES + 1)} SHAPES", ["SHAPES takes at most 20 values, here are 21"]),
        ("[kernels]\nSHAPES", ["SHAPES has no value before it"]),
        ("[kernels]\n1K SIZES", ["SIZES stands in [kernels]; allowed: in [comm]"]),
        ("[kernels]\n2 GROUPS", ["GROUPS stands in [kernels]; allowed: in [comm] [ensemble]"]),
        ("[kernels]\n2 SHAPE", ["SHAPE looks like SHAPES"]),
        ("[comm]\n3 SIZES", ["SIZES: 3 is out of range; allowed: a whole number from 4 to 1099511627776"]),
        ("[comm]\n2048G SIZES", ["SIZES: 2048G is out of range"]),
        ("[comm]\n1 2 DEGREE", ["line 4", "GROUPS has 1, DEGREE 2 values"]),
        ("[comm]\n2 GROUPS\n2 DEGREE", ["line 4", "GROUPS 2 x DEGREE 2 needs 4 ranks; allowed: up to 3"]),
        ("[comm]\n4 DEGREE", ["line 4", "GROUPS 0 x DEGREE 4 needs 4 ranks"]),
        ("[kernel]\n", ["[kernel] is unknown (kernel looks like kernels); allowed: [kernels] [comm] [health]"]),
    ],
)  # fmt: skip
def test_illegal_tables_are_refused(text: str, reasons: list[str]) -> None:
    message = refusal(text, 3)
    assert all(reason in message for reason in reasons), message


def test_all_errors_are_reported_at_once() -> None:
    message = refusal("[kernels]\n0 SHAPES\n[comm]\n3 SIZES\n9 GROUPS\nup MAPPING", 2)
    assert "4 errors" in message and all(f"line {number}:" in message for number in (4, 6, 7, 8))


def test_a_list_counts_as_one_test() -> None:
    many = " ".join(str(n) for n in range(1, 21))
    rest = "1000 REPEAT\n[kernels]\n" + f"{many} SHAPES\n1 2 3 4 5 6 7 8 9 10 BATCH\n"
    assert len(parse(HEADERS + rest).cases(1)) == 10_000
    assert "it asks for 20000 tests" in refusal(rest + "8 16 RESOLUTION\n")

"""The parsing of random, damaged and hostile inputs; and the round trip through the echo."""

import re
import string

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sampled_parameters import one_in

from hpcai.errors import InputError
from hpcai.inputfile import echo, parse, shipped_text
from hpcai.inputfile.key import MOST_COLUMNS, PATH, Key, Value
from hpcai.inputfile.keys import all_keys, keys_by_name, keys_of, sections
from hpcai.inputfile.split import parsed
from hpcai.inputfile.values import words_for
from hpcai.record.problem import input_of, problem_of

SHIPPED = shipped_text().encode()
FEW = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
PATHS = st.text(st.sampled_from(string.ascii_letters + string.digits + "/._-,:=é[]"), min_size=1, max_size=150)


def reads(text: str | bytes, *overrides: str) -> bool:
    """Whether an input is legal; any error except InputError is raised."""
    try:
        problem = parse(text, overrides, ranks=4)
    except InputError as error:
        lines = str(error).split("\n")
        assert all(line.isprintable() and len(line) <= 800 for line in lines)
        assert len(lines) <= 401
        return False
    assert all(len(line) <= 200 and line.isprintable() for line in echo(problem))
    return True


def value_of(key: Key) -> st.SearchStrategy[Value]:
    """Any legal value of a KEY; small values of REPEAT, so that a file has not too many tests."""
    if key.name == "REPEAT":
        return st.integers(1, 12)
    if key.kind == "choice":
        return st.sampled_from(key.choices)
    if key.kind == "shapes":
        return st.sampled_from(key.choices) | st.integers(int(key.low), int(key.high))
    if key.kind == "split":
        return st.builds("{}x{}x{}".format, *[st.integers(1, 1000)] * 3).filter(parsed)
    if key.kind == "dataset":
        plain = [choice for choice in key.choices if not choice.endswith(PATH)]
        before_path = st.sampled_from([choice.removesuffix(PATH) for choice in key.choices if choice not in plain])
        return st.sampled_from(plain) | st.builds(str.__add__, before_path, PATHS)
    if key.kind == "folder":
        return st.from_regex(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}", fullmatch=True).filter(
            lambda name: name.upper() not in keys_by_name()
        )
    if key.kind == "integer":
        return st.integers(int(key.low), int(key.high)) | st.just(0 if key.zero else int(key.low))
    high = None if key.high == float("inf") else float(key.high)
    numbers = st.floats(float(key.low), high, allow_nan=False, allow_infinity=False, allow_subnormal=key.low == 0)
    numbers = numbers.map(lambda x: x + 0.0).filter(lambda x: key.contains(x) or (key.zero != "" and x == 0))
    return numbers | st.sampled_from(key.choices) if key.kind == "limit" else numbers


def values_of(key: Key, count: int) -> st.SearchStrategy[tuple[Value, ...]]:
    """The given number of legal values, as far as they fit on a line."""
    lists = st.lists(value_of(key), min_size=count, max_size=count).map(tuple)
    return lists.filter(lambda values: len(words_for(key, values)) <= MOST_COLUMNS)


@st.composite
def blocks(draw: st.DrawFn, section: str) -> list[str]:
    """The lines of the run or a section in any order, some KEYs omitted, and not too many tests."""
    grids, swept = draw(st.integers(1, 20)), draw(st.sampled_from([key.name for key in all_keys() if key.sweep]))
    lines, given = {}, {}
    for key in keys_of(section):
        left_out = key.name not in ("GROUPS", "DEGREE") or grids == 1
        if key.default_in(section) and left_out and draw(st.booleans()):
            continue
        many = key.name == swept or key.listed
        of_grid = key.name in ("GROUPS", "DEGREE") or (key.name == "SPLIT" and many)
        count = grids if of_grid else draw(st.integers(1, 20)) if many else 1
        name = draw(st.sampled_from([key.name, key.name.lower(), key.name.title()]))
        given[key.name] = draw(values_of(key, count))
        words, rest = words_for(key, given[key.name]), draw(st.sampled_from(["", "# x", "the SEED"]))
        lines[key] = f"{words} {name} {rest}"
    return draw(st.permutations([line for key, line in lines.items() if has_effect(key, section, given)]))


def has_effect(key: Key, section: str, given: dict[str, tuple[Value, ...]]) -> bool:
    """Whether all values of the other KEY use this one."""
    if key.used_by is None:
        return True
    name, users = key.used_by
    return {*given.get(name, keys_by_name()[name].default_in(section))} <= {*users}


@st.composite
def inputs(draw: st.DrawFn) -> str:
    """A legal input."""
    lines = ["header one", "header two", *draw(blocks(""))]
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from([section.name for section in sections()]))
        lines += [f"[{name}]", *draw(blocks(name))]
    return draw(st.sampled_from(["\n", "\r\n", "\n\n"])).join(lines)


@pytest.mark.slow
@settings(FEW, max_examples=60)
@given(inputs())
def test_the_echo_is_parsed_as_the_same_problem(text: str) -> None:
    problem = parse(text)
    lines = echo(problem)
    again = parse("\n".join([*problem.headers, *lines]))
    assert again.run == problem.run
    assert [section.values for section in again.sections] == [section.values for section in problem.sections]
    assert all(len(line) <= 200 for line in lines)
    assert not [line for line in lines if re.search(r"(\d+\s+){4}\d+\.\d+\s+\d", line)]
    assert [line for line in echo(again) if "(default)" in line] == []
    assert problem_of(input_of(problem)) == problem


@FEW
@given(st.binary(max_size=400))
def test_random_bytes_are_parsed_or_refused(data: bytes) -> None:
    reads(data)


@FEW
@given(st.text(max_size=400), st.lists(st.text(max_size=30), max_size=3))
@example("", ["0", "\U00018d09"])  # a letter that Python 3.11 does not know
def test_random_text_is_parsed_or_refused(text: str, options: list[str]) -> None:
    reads(text)
    reads(text, *options)
    reads(SHIPPED, *(f"{key.name}={option}" for key, option in zip(all_keys()[:3], options, strict=False)))


@FEW
@given(st.data())
def test_damaged_files_are_parsed_or_refused(data: st.DataObject) -> None:
    text = bytearray(SHIPPED)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 60)))
        words = st.sampled_from([b"\n", b" 3 ", b"[", b"SEED", b"#", b"1e9", bytes(text)])
        text[start:end] = data.draw(st.binary(max_size=6) | words)
    reads(bytes(text))


@pytest.mark.parametrize(
    "text",
    one_in(7, [
        "one\ntwo\n" + "9" * 1_000_000 + " SEED",
        "one\ntwo\n" + "momentun epoch bath\n" * 50_000,
        "one\ntwo\n" + "momentun " * 100_000 + "SEED",
        "a\n" * 500_000,
        "one\ntwo\n[" + " " * 1_000_000 + "]x",
        "[" + " " * 500_000 + "]" + " " * 500_000 + "x\n[",
        "one\ntwo\n" + "[ensemble]\nfashion DATASET\n1 GROUPS\n1 DEGREE\n1 BATCH\n" * 18_000,
        "one\ntwo\n" + "[ensembel]\n" * 100_000,
        "one\ntwo\n" + "\x1b" * 1_000_000,
        " " * 1_000_000,
        "\r" * 1_000_000,
        "#" * 1_000_000,
    ]),
    ids=range(12),
)
def test_hostile_megabytes_are_refused_in_a_short_message(text: str) -> None:
    assert not reads(text)
    with pytest.raises(InputError) as caught:
        parse(text)
    assert len(str(caught.value)) < 100_000


def test_a_hostile_option_is_refused_in_a_short_message() -> None:
    assert not reads(SHIPPED, "BATCH=" + "1 " * 500_000)
    assert not reads(SHIPPED, "x" * 1_000_000 + "=1", "." * 1_000_000, "DATASET=fashion:" + "y" * 1_000_000)

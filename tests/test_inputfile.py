"""The content of input.dat and its interpretation: values, defaults, sweeps, cases, echo, record, documents."""

import hashlib
import pickle
import re
import subprocess
import sys
from itertools import permutations
from pathlib import Path

import pytest
from msgspec import convert
from sample_input import SMALL, ensemble

from hpcai.errors import InputError
from hpcai.inputfile import echo, parse, reference, shipped_text
from hpcai.inputfile.keys import all_keys, keys_by_name, keys_of, sections
from hpcai.networks import NAMES
from hpcai.record.plain import plain
from hpcai.record.problem import Input, input_of, problem_of

ROOT = Path(__file__).parent.parent


def test_the_example_is_parsed() -> None:
    problem = parse(SMALL)
    (section,) = problem.sections
    assert problem.headers == ("HPCAI benchmark input file", "Example Computing Centre, 2 nodes x 2 accelerators")
    numbers = {"SEED": 1, "RESIDUAL": 16.0, "REPEAT": 1, "TIMELIMIT": 0, "WATCHDOG": 300, "TELEMETRY": 30}
    words = {"OUTPUT": "run7", "SYSTEM": "unnamed", "LEVEL": "free", "ENERGY": "auto", "MLLOG": "off"}
    assert problem.run == {**words, **numbers, "CHECKPOINT": 600}
    assert problem.run_defaulted == problem.run.keys() - {"OUTPUT"}
    assert section.values["BATCH"] == (32, 64)
    assert section.values["TARGET"] == (0.85,)
    assert section.values["LEARNRATE"] == (0.256,)
    assert section.defaulted == {key.name for key in keys_of("ensemble")} - {
        "DATASET", "GROUPS", "DEGREE", "BATCH", "TARGET",
    }  # fmt: skip
    assert problem.digest == hashlib.sha256(SMALL.encode()).hexdigest()
    assert problem.text == SMALL
    assert problem.name == "input.dat"


def test_no_key_is_a_substring_of_another() -> None:
    assert not [(a.name, b.name) for a, b in permutations(all_keys(), 2) if a.name in b.name]


def test_every_default_is_legal_and_the_required_keys_are_these() -> None:
    assert {key.name for key in all_keys() if key.default is None} == {"DATASET", "GROUPS", "DEGREE", "BATCH"}
    values = parse(ensemble()).sections[0].values
    written_out = [f"{values[key.name][0]!r:} {key.name}".replace("'", "") for key in keys_of("ensemble")]
    assert parse(ensemble(*written_out)).sections[0].values == values


def test_the_networks_are_those_that_can_be_built() -> None:
    assert set(keys_by_name()["NETWORK"].choices) == set(NAMES)


@pytest.mark.parametrize(
    ("written", "value"),
    [("32", 32), ("32.0", 32), ("+32", 32), ("1e3", 1000), ("1E3", 1000), ("2.5e2", 250), ("3200e-2", 32),
     ("64K", 65536), ("1.5K", 1536), ("1M", 1048576), ("1G", 1073741824), ("032", 32), ("32.", 32)],
)  # fmt: skip
def test_whole_numbers_are_parsed(written: str, value: int) -> None:
    (read,) = parse(ensemble(f"{written} BATCH")).sections[0].values["BATCH"]
    assert read == value
    assert type(read) is int


@pytest.mark.parametrize(
    ("written", "value"), [("1", 1.0), (".5", 0.5), ("1e-3", 0.001), ("0.1", 0.1), ("2K", 2048.0), ("1e300", 1e300)]
)
def test_reals_are_parsed(written: str, value: float) -> None:
    (read,) = parse(ensemble(f"{written} LEARNRATE")).sections[0].values["LEARNRATE"]
    assert read == value
    assert type(read) is float


def test_the_value_of_a_key_may_be_the_name_of_another() -> None:
    search = "one\ntwo\n[nas]\nfashion DATASET\n1 GROUPS\n1 DEGREE\n8 BATCH\n"
    (section,) = parse(f"{search}rounds REPLAY of earlier ROUNDS\n3 ROUNDS and REPLAY\n").sections
    assert (section.values["REPLAY"], section.values["ROUNDS"]) == (("rounds",), (3,))
    for wrong in ("ROUNDS REPLAY", "rounds 3 REPLAY", "rounds"):
        with pytest.raises(InputError, match="ROUNDS has no value before it"):
            parse(f"{search}{wrong}\n")


def test_seeds_are_exact_to_the_last_bit() -> None:
    assert parse(SMALL, ["SEED=9223372036854775807"]).run["SEED"] == 2**63 - 1
    assert parse(SMALL, ["SEED=9007199254740993"]).run["SEED"] == 2**53 + 1


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_a_byte_order_mark_do_not_matter(end: str, mark: str) -> None:
    text = (mark + SMALL.replace("\n", end)).encode()
    problem = parse(text)
    assert problem.sections == parse(SMALL).sections
    assert problem.headers == parse(SMALL).headers
    assert problem.digest == hashlib.sha256(text).hexdigest()


def test_tabs_blanks_case_order_and_comments_do_not_matter() -> None:
    text = (
        "# a comment\n\n  Header one # stays\n! another\n\tHeader two\n\n"
        "# 7 SEED\n9\tseed\n[ Ensemble ] # text\n\n1\tdegree\n  1   Groups#comment\n \t\n"
        "16 8\tBatch ! 4\nfashion DATASET the SEED of all\n! end"
    )
    problem = parse(text)
    assert problem.headers == ("Header one # stays", "Header two")
    assert problem.run["SEED"] == 9
    assert problem.sections[0].values["BATCH"] == (16, 8)
    assert problem.sections[0].values["DATASET"] == ("fashion",)


def test_comments_are_headers_only_where_free_text_is_missing() -> None:
    settings = SMALL.split("\n", 2)[2]
    assert parse(f"# site\n\n! machine\n{settings}").headers == ("# site", "! machine")
    assert parse(f"# a comment\nsite\n! another\nmachine\n{settings}").headers == ("site", "machine")


@pytest.mark.parametrize(
    "header",
    ["Weekly output of site X", "2 seeds, 3 groups", "Seed study", "OUTPUT", "[Draft] of site X",
     "resnet8 network test", "Université, 12 nœuds", "\uff11\uff12 nodes", "-1 SEED is no seed",
     "Two runs OUTPUT together", "x" * 500],
)  # fmt: skip
def test_free_text_is_a_header(header: str) -> None:
    assert parse(SMALL.replace("HPCAI benchmark input file", header)).headers[0] == header
    assert parse(SMALL.replace("Example Computing Centre, 2 nodes x 2 accelerators", header)).headers[1] == header


def test_a_section_may_occur_twice() -> None:
    second = SMALL[SMALL.index("[ensemble]") :].replace("32 64", "16")
    problem = parse(SMALL + second)
    assert [section.values["BATCH"] for section in problem.sections] == [(32, 64), (16,)]
    assert [case["BATCH"] for case in problem.cases(2)] == [32, 64, 32, 64, 16, 16]
    assert [case.index for case in problem.cases(2)] == [1, 2, 3, 4, 5, 6]


def test_a_path_may_contain_characters_that_do_not_separate() -> None:
    path = "fashion:/data/a,b=c[1]/é/../x"
    assert parse(ensemble(f"{path} DATASET")).sections[0].values["DATASET"] == (path,)


def test_overrides_replace_and_the_last_one_wins() -> None:
    options = ["BATCH=8,16 32", "seed = 5", "ensemble.batch=4", "Ensemble.EPOCHS=2", "DATASET=fashion:/x"]
    problem = parse(SMALL, options)
    values = problem.sections[0].values
    assert values["BATCH"] == (4,)
    assert values["EPOCHS"] == (2,)
    assert values["DATASET"] == ("fashion:/x",)
    assert problem.run["SEED"] == 5
    assert "EPOCHS" not in problem.sections[0].defaulted
    assert "SEED" not in problem.run_defaulted
    assert problem.overrides == tuple(options)
    assert parse(SMALL, ["BATCH=8,16 32"]).sections[0].values["BATCH"] == (8, 16, 32)


def test_an_override_adds_a_key_that_the_file_lacks() -> None:
    problem = parse("one\ntwo\n[ensemble]\n", ["DATASET=fashion", "GROUPS=1", "DEGREE=1", "BATCH=8"])
    assert problem.cases(1)[0]["BATCH"] == 8


def test_each_dataset_in_use_is_opened_once() -> None:
    asked: list[str] = []
    text = ensemble("fashion fashion:/a fashion DATASET")
    parse(text, check_dataset=asked.append)
    assert asked == ["fashion", "fashion:/a"]
    parse(text, ["DATASET=fashion:full"], check_dataset=asked.append)
    assert asked[2:] == ["fashion:full"]


def test_the_echo_contains_all_settings_and_marks_defaults() -> None:
    lines = echo(parse(SMALL))
    assert "run7           OUTPUT" in lines
    assert "1              SEED         (default)" in lines
    assert "0.85           TARGET" in lines
    assert "5              PENALTY      (default)" in lines
    first = {line.split()[1 if "GROUPS" not in line else 2] for line in lines[:4]}
    assert first == {"OUTPUT", "SYSTEM", "LEVEL", "SEED"}
    names = [key.name for section in ("", "ensemble") for key in keys_of(section)]
    assert names == [word for line in lines for word in line.split() if word in keys_by_name()]


def test_the_echo_has_no_line_like_a_row_of_results() -> None:
    lines = echo(parse(ensemble("1 2 3 4 5 6 BATCH", "1 2 3 4 0.5 1 LEARNRATE")))
    assert "1.0 2.0 3.0 4.0 0.5 1.0 LEARNRATE" in lines
    assert not [line for line in lines if re.search(r"(\d+\s+){4}\d+\.\d+\s+\d", line)]


def test_the_record_is_json_and_gives_the_same_problem() -> None:
    problem = parse("\ufeff" + SMALL.replace("\n", "\r\n"), ["BATCH=4"], name="other.dat")
    record = plain(input_of(problem))
    assert problem_of(convert(record, Input)) == problem
    assert record["run"]["SEED"] == {"value": 1, "default": True}
    assert record["sections"][0]["keys"]["BATCH"] == {"values": [4], "default": False}
    assert pickle.loads(pickle.dumps(problem)) == problem


def test_the_shipped_text_is_legal_complete_and_aligned() -> None:
    text = shipped_text()
    problem = parse(text, ranks=2)
    assert problem.run_defaulted == frozenset()
    assert all(not section.defaulted for section in problem.sections)
    cases = problem.cases(2)
    assert [case.workload for case in cases] == ["kernels", "comm", *["ensemble"] * 2, "weather", "nas"]
    assert [(case["GROUPS"], case["DEGREE"]) for case in cases[1:]] == [(2, 1), (2, 1), (1, 2), *[(2, 1)] * 2]
    assert [case["KERNELS"] for case in cases[2:]] == ["vendor", "custom", "vendor", "vendor"]
    settings = [line for line in text.splitlines()[2:] if line and line[0] != "["]
    assert all(line[14] == " " and line[15] != " " and line[27] == " " and line[28] != " " for line in settings)
    assert max(map(len, text.splitlines())) <= 200
    assert {section.name for section in problem.sections} <= {section.name for section in sections()}


def test_the_shipped_file_is_the_shipped_text() -> None:
    shipped = ROOT / "input.dat"
    if not shipped.exists():
        pytest.skip("this tree has no input.dat")
    assert shipped.read_text() == shipped_text()


def test_the_reference_table_is_up_to_date() -> None:
    assert (ROOT / "docs" / "INPUT.md").read_text() == reference()


def test_reading_an_input_loads_no_heavy_library() -> None:
    program = (
        "import sys, hpcai.inputfile as i; i.echo(i.parse(i.shipped_text()));"
        "print(*{'numpy', 'torch', 'h5py', 'mpi4py'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""

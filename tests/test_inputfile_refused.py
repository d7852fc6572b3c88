"""Illegal input.dat files: each is refused with its line number, the line itself and the allowed values, together."""

import pytest
from test_inputfile import SMALL, ensemble

from hpcai.errors import DataError, InputError
from hpcai.inputfile import parse


def refusal(text: str | bytes, *overrides: str, ranks: int | None = None) -> str:
    """The message about an illegal input."""
    with pytest.raises(InputError) as caught:
        parse(text, overrides, ranks)
    assert caught.value.exit_code == 2
    return str(caught.value)


WITHOUT = {key: "\n".join(line for line in SMALL.splitlines() if key not in line) for key in ("DATASET", "BATCH")}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("32 64", "no word of this line is a KEY"),
        ("just some words", "no word of this line is a KEY"),
        ("2 GROUP models", "GROUP looks like GROUPS"),
        ("32 BATHC number of samples", "BATHC looks like BATCH"),
        ("32 EPOCH and a seed", "EPOCH looks like EPOCHS"),
        ("EPOCHS", "EPOCHS has no value before it"),
        ("EPOCHS 8", "EPOCHS has no value before it"),
        ("32 sixty-four EPOCHS", "sixty-four is not a whole number"),
        (" ".join(["1"] * 21) + " EPOCHS", "at most 20 values, here are 21"),
        ("1 2 TARGET", "one value, here are 2"),
        ("1 2 EVALUATE", "one value, here are 2"),
        ("2 3 PENALTY", "one value, here are 2"),
        ("1e-3 EPOCHS", "1e-3 is not a whole number"),
        ("32.5 EPOCHS", "32.5 is not a whole number"),
        ("0 EPOCHS", "0 is out of range; allowed: a whole number from 1 to 1000000"),
        ("-1 SAMPLES", "-1 is out of range; allowed: 0 = all, else a whole number from 2 to"),
        ("1 SAMPLES", "1 is out of range"),
        ("1e-300 ENERGY", "1e-300 is out of range; allowed: auto | none | meter:PATH | a number from 1 to 1000000"),
        ("1e308 ENERGY", "1e308 is out of range"),
        ("7 RESOLUTION", "7 is out of range; allowed: 0 = the dataset's own, else a whole number from 8 to 1024"),
        ("1025 RESOLUTION", "1025 is out of range"),
        ("1e9999 EPOCHS", "1e9999 is out of range"),
        ("1e99999 EPOCHS", "1e99999 is not a whole number"),
        ("2G EPOCHS", "2G is out of range"),
        ("1e3K EPOCHS", "1e3K is not a whole number"),
        ("64k EPOCHS", "64k is not a whole number"),
        ("0 LEARNRATE", "0 is out of range; allowed: a number above 0"),
        ("1e-400 LEARNRATE", "1e-400 is out of range"),
        ("1e400 LEARNRATE", "1e400 is out of range"),
        ("1 MOMENTUM", "1 is out of range; allowed: a number from 0 to below 1"),
        ("1 SMOOTHING", "1 is out of range"),
        ("-1e-9 DECAY", "-1e-9 is out of range; allowed: a number of at least 0"),
        ("1.001 TARGET", "1.001 is out of range; allowed: 0 = the dataset's own, else a number from 0.001 to 1"),
        ("nan WARMUP", "nan is not a number"),
        ("inf WARMUP", "inf is not a number"),
        ("-Infinity WARMUP", "-Infinity is not a number"),
        ("1_000 EPOCHS", "1_000 is not a whole number"),
        ("0x10 EPOCHS", "0x10 is not a whole number"),
        ("1,000 EPOCHS", "1,000 is not a whole number"),
        ("\uff11\uff12 EPOCHS", "\uff11\uff12 is not a whole number (digits are 0 to 9)"),
        ("٣ WARMUP", "٣ is not a number (digits are 0 to 9)"),
        ("1² EPOCHS", "1² is not a whole number"),
        ("resnet9 NETWORK", "resnet9 is unknown (resnet9 looks like resnet8); allowed: resnet8 | resnet14"),
        ("ResNet50 NETWORK", "ResNet50 looks like resnet50"),
        ("fp8 PRECISION", "fp8 is unknown"),
        ("adamax OPTIMISER", "adamax is unknown (adamax looks like adam); allowed: sgd | adam | adamw | adagrad"),
        ("0.5 TRUST", "TRUST 0.5 has no effect with OPTIMISER sgd; allowed: OPTIMISER lars, or TRUST 0.001"),
        ("7 SEED", "SEED stands in [ensemble]; allowed: before the first section"),
        ("64 BATCH", "BATCH stands already in line 9; allowed: once a section"),
        ("64 \u017fEED", "no word of this line is a KEY"),
        ("3\u00a0EPOCHS", "3\\xa0EPOCHS looks like EPOCHS"),
        ("[ensembel]", "[ensembel] is unknown (ensembel looks like ensemble); allowed: [kernels] [comm] [health]"),
        ("[climate]", "section [climate] is unknown; allowed: [kernels] [comm] [health] [ensemble]"),
        ("[ensemble", "a section line needs a name in brackets"),
        ("[]", "section [] is unknown"),
        ("[ensemble]", "[ensemble] needs a line with DATASET; allowed: fashion | fashion:full | fashion:PATH"),
    ],
)
def test_an_illegal_line_is_refused(line: str, says: str) -> None:
    message = refusal(SMALL + line + "\n")
    assert f"line 11: {line[:100].strip()}".replace("\u00a0", "\\xa0") in message
    assert says in message


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("imagenet DATASET", "imagenet is unknown; allowed: fashion | fashion:full | fashion:PATH"),
        ("fasion:/data DATASET", "fasion looks like fashion"),
        ("fashion: DATASET", "fashion: is unknown"),
        ("fashion:/" + "x" * 180 + " DATASET", "take 189 columns; allowed: 185"),
        ("1e-3 GROUPS", "1e-3 is not a whole number"),
        ("-1 GROUPS", "-1 is out of range; allowed: 0 = ranks / DEGREE, else a whole number from 1"),
        ("1 2 GROUPS", "GROUPS has 2, DEGREE 1 values"),
        ("1 1 1 DEGREE", "GROUPS has 1, DEGREE 3 values"),
        ("0 BATCH", "0 is out of range"),
        ("32#64 BATCH", "no word of this line is a KEY"),
    ],
)
def test_an_illegal_required_setting_is_refused(line: str, says: str) -> None:
    assert says in refusal(ensemble(line))


@pytest.mark.parametrize("name", ["..", ".hidden", "a/b", "/tmp", "../x", "a\\b", "é", "a:b", "~", "x" * 101, "seed"])
def test_a_folder_that_is_no_plain_name_is_refused(name: str) -> None:
    for message in (refusal(SMALL.replace("run7", name)), refusal(SMALL, f"OUTPUT={name}")):
        assert "OUTPUT" in message
        assert "allowed:" in message


@pytest.mark.parametrize("key", WITHOUT)
def test_a_missing_required_key_is_refused(key: str) -> None:
    message = refusal(WITHOUT[key])
    assert "line 5: [ensemble]" in message
    assert f"[ensemble] needs a line with {key}; allowed: " in message


@pytest.mark.parametrize("line", ["8 EPOCHS", "fashion DATASET"])
def test_a_key_of_a_section_is_refused_before_it(line: str) -> None:
    message = refusal(SMALL.replace("run7  ", line + "\nrun7  "))
    assert f"line 3: {line}" in message
    assert f"{line.split()[1]} stands before the first section; allowed: in [ensemble]" in message


@pytest.mark.parametrize(
    ("first", "line"),
    [(["hpcai OUTPUT name"], 1), (["a header", "1 SEED"], 2), (["a header", "1 seed"], 2), (["[ensemble]"], 1),
     (["a", "[ensemble] text"], 2), (["[ensembel] text"], 1), (["[kernels] # x"], 1), (["16.0\tResidual"], 1)],
)  # fmt: skip
def test_a_missing_header_is_detected(first: list[str], line: int) -> None:
    message = refusal("\n".join(first + SMALL.splitlines()[4:]))
    assert f"line {line}: " in message
    assert "two header lines of free text must come first; this is already a setting" in message


def test_nearly_empty_files_are_refused() -> None:
    assert "it ends after 0 of two header lines" in refusal("")
    assert "it ends after 1 of two header lines" in refusal("\n# only a comment\n\n")
    assert "it ends after 1 of two header lines" in refusal("one")
    assert "it has no section" in refusal("one\ntwo\n3 SEED\n")


def test_encodings_that_are_not_utf8_are_refused() -> None:
    assert "line 2: Universit\\udce9" in (message := refusal(SMALL.replace("Example", "Université").encode("latin-1")))
    assert "column 10 holds a byte that is not UTF-8 0xE9" in message
    assert "it is binary" in refusal(SMALL.encode("utf-16"))
    assert "it is binary" in refusal(bytes(range(256)) * 40)
    assert "U+D800" in refusal(SMALL.replace("Example", "\ud800"))


@pytest.mark.parametrize("bad", ["\x07", "\x1b", "\x0b", "\x0c", "\x85", "\u2028", "\u202e", "\u200b", "\ufeff"])
@pytest.mark.parametrize("where", ["Example", "name of", "0.85", "image", "32 64"])
def test_control_characters_are_refused_anywhere(bad: str, where: str) -> None:
    message = refusal(SMALL.replace(where, where + bad))
    assert f"holds the control character U+{ord(bad):04X}" in message
    assert ": 1 error," in message
    assert bad not in message
    assert "control character" in refusal(SMALL + f"# a comment {bad}")


def test_grids_larger_than_the_job_are_refused() -> None:
    assert "line 7: 2 1            GROUPS" in (message := refusal(SMALL, ranks=1))
    assert "GROUPS 2 x DEGREE 1 needs 2 ranks; allowed: up to 1, as many as there are: mpirun -np N starts N" in message
    assert "GROUPS 1 x DEGREE 2 needs 2 ranks" in message
    assert "GROUPS 0 x DEGREE 4 needs 4 ranks" in refusal(ensemble("0 GROUPS", "4 DEGREE"), ranks=3)
    assert "GROUPS 4 x DEGREE 0 needs 4 ranks" in refusal(ensemble("4 GROUPS", "0 DEGREE"), ranks=3)


def test_too_many_tests_are_refused() -> None:
    twenty = " ".join(str(n) for n in range(1, 21))
    sweep = [f"{twenty} {key}" for key in ("BATCH", "EPOCHS", "WARMUP")]
    assert len(parse(ensemble(*sweep)).cases(1)) == 8000
    assert "it asks for 16000 tests; allowed: 10000" in refusal(ensemble(*sweep, "0 1 DECAY"))


def test_a_missing_dataset_is_refused() -> None:
    def missing(spec: str) -> None:
        raise DataError(f"{spec} is not there")

    with pytest.raises(InputError, match=r"line 6: fashion  (?s:.)*DATASET: fashion is not there"):
        parse(SMALL, check_dataset=missing)
    with pytest.raises(InputError, match=r"--set DATASET=fashion:/a\n +DATASET: fashion:/a is not there"):
        parse(SMALL, ["DATASET=fashion:/a"], check_dataset=missing)


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("BATCH", "there is no = in it; allowed: [SECTION.]KEY=VALUE"),
        ("", "there is no = in it"),
        ("=3", "KEY  is unknown"),
        ("BACTH=3", "KEY BACTH is unknown (BACTH looks like BATCH)"),
        ("BATCH=", "BATCH has no value"),
        ("BATCH= , ,", "BATCH has no value"),
        ("BATCH=0", "BATCH: 0 is out of range; allowed: a whole number from 1"),
        ("BATCH=1_0", "1_0 is not a whole number"),
        ("ensembel.EPOCHS=3", "section [ensembel] is unknown (ensembel looks like ensemble); allowed: [ensemble]"),
        ("climate.EPOCHS=3", "section [climate] is unknown; allowed: [ensemble]"),
        ("kernels.EPOCHS=3", "section [kernels] has no EPOCHS; allowed: [ensemble]"),
        ("kernels.BATCH=3", "the file has no section [kernels]; it has BATCH in [ensemble]"),
        (".BATCH=3", "section [] is unknown"),
        ("ensemble.SEED=3", "section [ensemble] has no SEED; allowed: SEED=VALUE, a setting of the run"),
        ("SEED=1 2", "SEED takes one value, here are 2"),
        ("OUTPUT=../x", "../x is no plain folder name"),
        ("DATASET=fashion:/a#b", "holds a blank, # or !"),
        ("GROUPS=1", "GROUPS has 1, DEGREE 2 values"),
        ("BATCH=3\x1b[2J", "control character U+001B"),
        ("BATCH=3\n4", "3\\n4 is not a whole number"),
        ("DATASET=fashion:/a\nb", "holds a blank"),
    ],
)
def test_an_illegal_override_is_refused(option: str, says: str) -> None:
    message = refusal(SMALL, option)
    assert "\n  --set " in message
    assert says in message
    assert message.isprintable() or all(line.isprintable() for line in message.split("\n"))


def test_an_override_for_a_missing_section_is_refused() -> None:
    assert "no section of the file has EPOCHS; allowed: where there is [ensemble]" in refusal("a\nb\n", "EPOCHS=3")


def test_all_errors_are_reported_at_once_and_in_order() -> None:
    text = "one\ntwo\n0 RESIDUAL\n[ensemble]\nfashion DATASET\nx y BATCH\n2 GROUP\n1 DEGREE\n9 NETWORK\n"
    message = refusal(text, "EPOCHS=0", "MOMENTUN=1")
    assert message.startswith("input.dat: 7 errors, nothing was run\n")
    labels = [line.strip() for line in message.split("\n") if line.startswith("  ") and line[2] != " "]
    assert labels == [
        "line 3: 0 RESIDUAL", "line 6: x y BATCH", "line 7: 2 GROUP", "line 9: 9 NETWORK",
        "--set EPOCHS=0", "--set MOMENTUN=1",
    ]  # fmt: skip


def test_a_misspelt_section_hides_no_error_and_invents_none() -> None:
    message = refusal(SMALL.replace("[ensemble]", "[ensembel]").replace("0.85 ", "8.5 "))
    assert message.startswith("input.dat: 2 errors")


def test_the_name_of_the_file_is_reported() -> None:
    with pytest.raises(InputError, match=r"^my\.dat: 1 error, nothing was run\n  line 11: x\n"):
        parse(SMALL + "x\n", name="my.dat")

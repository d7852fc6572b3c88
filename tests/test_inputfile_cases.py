"""From a problem to its cases: grids outermost, sweeps multiplied out, zeros resolved."""

from pathlib import Path

import pytest
from sample_input import SMALL, ensemble
from synthetic_search import SEARCH

from hpcai.errors import InputError
from hpcai.inputfile import Case, parse
from hpcai.inputfile.cases import _KeyValue
from hpcai.inputfile.keys import all_keys, keys_of


def test_grids_are_outermost_and_the_last_key_is_fastest() -> None:
    text = SMALL + "0.1 0.2 LEARNRATE\nv1 v1.5 VARIANT\n"
    rows = [(c["GROUPS"], c["DEGREE"], c["VARIANT"], c["BATCH"], c["LEARNRATE"]) for c in parse(text).cases(2)]
    expected = [
        (p, q, variant, batch, rate)
        for p, q in ((2, 1), (1, 2))
        for variant in ("v1", "v1.5")
        for batch in (32, 64)
        for rate in (0.1, 0.2)
    ]
    assert rows == expected


def test_a_case_has_every_setting() -> None:
    case = parse(SMALL).cases(2)[0]
    assert set(case.settings) == {key.name for section in ("", "ensemble") for key in keys_of(section)}
    assert case.workload == "ensemble"
    assert case["OUTPUT"] == "run7"


def test_attributes_are_the_values_of_the_keys_that_sections_share() -> None:
    case = parse(SMALL).cases(2)[0]
    names = [name for name, each in vars(Case).items() if isinstance(each, _KeyValue)]
    shared = {key.name for key in all_keys() if len(key.sections) != 1}
    assert len(names) > 20 and {name.upper() for name in names} <= shared
    assert [getattr(case, name) for name in names] == [case[name.upper()] for name in names]


def test_a_key_that_the_section_lacks_is_no_attribute_of_the_case() -> None:
    with pytest.raises(KeyError, match="BATCH"):
        Case(1, "comm", {"SIZES": (4,)}).batch  # noqa: B018, reading it is what raises


@pytest.mark.parametrize(
    ("groups", "degree", "ranks", "accelerators", "grid"),
    [(0, 1, 5, 0, (5, 1)), (0, 2, 5, 0, (2, 2)), (0, 0, 8, 0, (8, 1)), (0, 0, 8, 4, (2, 4)), (0, 0, 9, 4, (2, 4)),
     (2, 0, 8, 4, (2, 4)), (3, 2, 8, 4, (3, 2)), (1, 0, 1, 0, (1, 1))],
)  # fmt: skip
def test_zeros_of_the_grid(groups: int, degree: int, ranks: int, accelerators: int, grid: tuple[int, int]) -> None:
    (case,) = parse(ensemble(f"{groups} GROUPS", f"{degree} DEGREE"), ranks=ranks).cases(ranks, accelerators)
    assert (case["GROUPS"], case["DEGREE"]) == grid


@pytest.mark.parametrize(
    ("groups", "degree", "ranks", "accelerators"), [(2, 2, 3, 0), (0, 4, 3, 0), (0, 0, 2, 4), (2, 0, 7, 4)]
)
def test_grids_that_do_not_fit(groups: int, degree: int, ranks: int, accelerators: int) -> None:
    problem = parse(ensemble(f"{groups} GROUPS", f"{degree} DEGREE"))
    with pytest.raises(InputError, match=rf"{ranks} ranks(?s:.)*\[ensemble\] GROUPS {groups}"):
        problem.cases(ranks, accelerators)


@pytest.mark.parametrize(("text", "name"), [(SMALL, "KERNELS"), ("one\ntwo\n" + SEARCH, "REPLAY")])
def test_files_named_by_values_have_to_exist(
    text: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    option, asked = f"{name}=file:own.py", list[str]()
    with pytest.raises(InputError, match=rf"--set .*\n +{name}: there is no file {tmp_path}/own.py; allowed: a path"):
        parse(text, [option], check_dataset=asked.append)
    assert parse(text, [option]).cases(2)[0][name] == "file:own.py"
    (tmp_path / "own.py").touch()
    parse(text, [option], check_dataset=asked.append)
    monkeypatch.setenv("HOME", str(tmp_path))
    case = parse(text, [f"{name}=file:~/own.py"], check_dataset=asked.append).cases(2)[0]
    assert f"{tmp_path}/own.py" in (case.kernels_file, case.recording) and len(asked) == 3

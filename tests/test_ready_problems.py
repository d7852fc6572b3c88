"""The problems in inputs/ are legal, listed, and can be planned if their data are there; four are official ones."""

import hashlib
import json
import re
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
from launch import BENCH, ROOT, mpirun, run_job

from hpcai.data import catalog
from hpcai.data.text import text_files
from hpcai.data.text.text_dataset import description
from hpcai.data.weather import layout
from hpcai.errors import DataError
from hpcai.formulas import eligibility, official_rules
from hpcai.formulas.precision import PRECISIONS
from hpcai.inputfile import parse
from hpcai.results.training import official
from hpcai.train.recipe import Recipe
from hpcai.workloads import registry

PROBLEMS = sorted((ROOT / "inputs").glob("*.dat"))


def parsed(path, ranks=8):
    return parse(path.read_bytes(), [], ranks, lambda spec: None, path.name)


@pytest.mark.parametrize("path", PROBLEMS, ids=lambda path: path.stem)
def test_every_problem_is_legal(path):
    cases = parsed(path).cases(8, 0)
    gridded = [case for case in cases if "GROUPS" in case.settings]
    assert cases and all(case["GROUPS"] * case["DEGREE"] <= 8 for case in gridded)


@pytest.mark.parametrize("path", PROBLEMS, ids=lambda path: path.stem)
def test_no_problem_has_the_same_case_twice(path):
    cases = [repr((case.workload, case.settings)) for case in parsed(path).cases(8, 0)]
    assert len({*cases}) == len(cases)


def test_every_problem_is_listed_once():
    listed = re.findall(r"^\| `(\S+\.dat)` \|", (ROOT / "inputs" / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == [path.name for path in PROBLEMS]


def is_here(path):
    try:
        for case in parsed(path).cases(8, 0):
            catalog.check(case.settings.get("DATASET", "fashion"))
    except DataError:
        return False
    return True


# The others are run by the tests of documents.
@pytest.mark.parametrize(("name", "ranks"), [
    ("kernels", 2),
    pytest.param("search", 2, marks=pytest.mark.slow),
    ("parallel", 4),
    *(
        pytest.param(name, 2, marks=pytest.mark.exhaustive)
        for name in (
            *("generated", "imagenet", "aiperf", "extremeweather"),
            *("enwik8", "fashion-full", "weather", "language"),
        )
    ),
])
def test_problems_can_be_planned_with_their_data(name, ranks):
    path = ROOT / "inputs" / f"{name}.dat"
    if not is_here(path):
        pytest.skip(f"NO DATA FOR {path.name}: NOT PLANNED")
    done = run_job([BENCH, path, "--plan", "--ranks", str(ranks)], None)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("imagenet", "python -P -m hpcai.data.pack SOURCE TARGET"),
        ("extremeweather", "python -P -m hpcai.data.pack_weather SOURCE TARGET"),
        ("enwik8", "the file enwik8, unpacked from https://mattmahoney.net/dc/enwik8.zip"),
    ],
)
def test_a_problem_without_its_data_is_refused_with_the_remedy(tmp_path, name, remedy):
    done = run_job([BENCH, ROOT / "inputs" / f"{name}.dat", "--plan", "--ranks", "8"], None, tmp_path)
    assert done.returncode == 2 and remedy in done.stderr
    assert done.stderr.startswith(f"hpcai: {name}.dat: 1 error, nothing was run")


def test_the_official_problem_is_the_reference_configuration():
    problem = parsed(ROOT / "inputs" / "imagenet.dat")
    (case,) = problem.cases(8, 4)
    assert (case["GROUPS"], case["DEGREE"], problem.run["SEED"]) == (2, 4, 10)
    expected = {"NETWORK": "resnet50", "VARIANT": "v1.5", "RESOLUTION": 224, "SAMPLES": 0, "BATCH": 128}
    expected |= {"EPOCHS": 90, "WARMUP": 8, "LEARNRATE": 0.256, "SCHEDULE": "cosine", "OPTIMISER": "sgd"}
    expected |= {"MOMENTUM": 0.875, "DECAY": 3.05e-5, "SMOOTHING": 0.1, "TARGET": 0.763, "PENALTY": 5}
    assert {name: case[name] for name in expected} == expected
    facts = {"dataset": "imagenet", "original": True, "samples": official_rules.SAMPLES, "bits": 32, "passed": True}
    facts |= {name.lower(): case[name] for name in ("EPOCHS", "TARGET", "PENALTY", "NETWORK", "VARIANT")}
    facts |= {"completed": True, "classes": 1000, "resolution": 2 * (case["RESOLUTION"],)}
    assert eligibility.official(facts).status == eligibility.VALID


def write_year(path, frames):
    """A sparse file of the published size: it reads as zeros, and has no boxes."""
    with h5py.File(path, "w") as file:
        shape = (frames, len(layout.CHANNELS), layout.HEIGHT, layout.WIDTH)
        file.create_dataset(layout.IMAGES, shape, np.float32, chunks=(46, 1, 48, 72), compression="gzip")
        file.create_dataset(layout.RECTANGLES, (frames, layout.BOXES, 5), np.int32, fillvalue=-1)


@pytest.mark.parametrize(
    ("missing", "status"),
    [((), eligibility.VALID), ((1983, 1999), eligibility.VALID), ((1983, 1984, 1999), eligibility.UNOFFICIAL)],
)
def test_the_official_weather_problem_is_valid_only_on_all_published_years(tmp_path, missing, status):
    for year in {*range(1979, 2006)} - {*missing}:
        write_year(tmp_path / layout.file_name(year), 1456 if year in (1989, 2005) else 1460)
    problem = parsed(ROOT / "inputs" / "extremeweather.dat")
    (case,) = problem.cases(8, 4)
    settings = {**case.data_settings, "DATASET": f"extremeweather:{tmp_path}"}
    data = catalog.open_weather_for(settings, surveyed=False)
    assert (data.shape, len(data.classes), len(data.validation)) == ((16, 768, 1152), 4, 1456)
    expected = {"NETWORK": "fasterrcnn50", "EPOCHS": 50, "TARGET": 0.35, "PENALTY": 10, "SAMPLES": 0}
    assert {name: case[name] for name in expected} == expected and (case["GROUPS"], case["DEGREE"]) == (2, 4)
    facts = {"dataset": data.name, "original": case["SAMPLES"] == 0, "samples": len(data.train), "passed": True}
    facts |= {name.lower(): case[name] for name in ("EPOCHS", "TARGET", "PENALTY", "NETWORK", "VARIANT")}
    facts |= {"classes": len(data.classes), "resolution": data.shape[1:]}
    facts |= {"bits": PRECISIONS[case["PRECISION"]].bits, "completed": True, "validation": len(data.validation)}
    assert eligibility.official(facts, official_rules.WEATHER).status == status


@pytest.mark.parametrize(
    ("changes", "status", "reason"),
    [
        ((), eligibility.VALID, None),
        (("SAMPLES=175780",), eligibility.UNOFFICIAL, "dataset enwik8 altered, official enwik8 unaltered"),
        (("RESOLUTION=0",), eligibility.UNOFFICIAL, "samples 703124, official 175781"),
        (("EPOCHS=49",), eligibility.INVALID, "epochs 49, official 50"),
        (("TARGET=1.2",), eligibility.INVALID, "target 1.2, official 1.11"),
        (("PENALTY=10",), eligibility.INVALID, "penalty 10, official 5"),
        (("NETWORK=decoder6x256",), eligibility.INVALID, "network decoder6x256, official decoder12x512"),
    ],
)
def test_the_official_language_problem_is_valid_only_as_it_is(tmp_path, monkeypatch, changes, status, reason):
    """On a file of its size, since the published one is not here."""
    file = tmp_path / "enwik8"
    file.write_bytes(bytes(10**8))
    monkeypatch.setattr(text_files, "ENWIK8", hashlib.sha256(file.read_bytes()).hexdigest())
    text = (ROOT / "inputs" / "enwik8.dat").read_bytes()
    case = parse(text, [f"DATASET=enwik8:{file}", *changes], 8, lambda spec: None, "enwik8").cases(8, 4)[0]
    data = catalog.open_text_for(case.data_settings)
    raw = SimpleNamespace(dataset=description(data), target=case["TARGET"] or data.target)
    found = official(case, raw, "PASSED", registry.part("language", "checks").RULES)
    assert (case["GROUPS"], case["DEGREE"], data.target) == (2, 4, 1.11)
    assert found.status == status and (reason in found.reasons if reason else not found.reasons)


def test_the_official_search_is_the_reference_configuration():
    (case,) = parsed(ROOT / "inputs" / "aiperf.dat").cases(8, 4)
    assert (case["GROUPS"], case["DEGREE"]) == (2, 4)
    expected = {"NETWORK": "resnet50", "VARIANT": "v1", "RESOLUTION": 224, "SAMPLES": 0, "BATCH": 448, "EPOCHS": 60}
    expected |= {"SCHEDULE": "linear", "SMOOTHING": 0.0, "TARGET": 0.70, "INITIAL": "inherited", "STRATEGY": "bayes"}
    assert {key: case[key] for key in expected} == expected
    assert Recipe.of(case.settings).peak_rate == 0.1  # of a worker, whatever its ranks
    assert case["DURATION"] >= 3600


@pytest.mark.slow
@pytest.mark.skipif(mpirun() is None, reason="NO mpirun: THE SHORT LANGUAGE MODEL NOT TRAINED")
def test_the_short_language_model_learns_more_than_pairs_of_symbols(tmp_path):
    done = run_job([BENCH, ROOT / "inputs" / "language-short.dat"], 2, tmp_path)
    assert done.returncode == 0, done.stderr
    (result,) = tmp_path.glob("results/*/result.json")
    (test,) = json.loads(result.read_text())["tests"]
    assert test["verdict"] == "PASSED" and "REACHED" in done.stdout
    assert 0.05 < test["scores"]["excess"] < 0.125  # the table of frequencies of 20,000 sequences

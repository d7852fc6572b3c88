"""Real runs with `auto KERNELS`: what they print, what follows from it, and what altered results are found out by."""

import re
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from alterations import verified
from launch import mpirun
from small_run import INPUT, WEATHER, Run, bench, rebuilt

from hpcai.errors import InputError
from hpcai.inputfile import parse
from hpcai.preflight import case_checks
from hpcai.result import choice
from hpcai.verification import verify

pytestmark = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: AUTO KERNELS NOT RUN")

Json = dict[str, Any]
RUNS = {
    "ensemble": (INPUT, ("KERNELS=auto", "GROUPS=1", "DEGREE=2")),
    "weather": (WEATHER / "input.dat", ("KERNELS=auto", "GROUPS=2", "DEGREE=1", "EPOCHS=1")),
}
WORKLOADS = ["ensemble", pytest.param("weather", marks=pytest.mark.slow)]


@cache
def run(workload: str) -> Run:
    """A test on two ranks, with one model or with two."""
    path, settings = RUNS[workload]
    return bench([str(path), "--set", *settings], 2)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_it_is_told_measured_and_verified(workload: str) -> None:
    made = run(workload)
    (test,) = made.result["tests"]
    assert test["tv"][6] == "A"
    found = test["raw"]["choice"]
    assert found["rounds"] > 1 and {entry["kernel"] for entry in found["products"]} == {"conv2d", "gemm"}
    shares = test["scores"]["kernels_ours"]
    for name, share in (("products of the layers", "directions"), ("batch norms", "normalisations")):
        (line,) = re.findall(rf"{name} by our kernels, share= +([\d.]+)\n", made.job.stdout)
        assert float(line) == pytest.approx(shares[share], abs=1e-6)
    assert "throughput by these kernels, of the vendor's=" in made.job.stdout
    assert "phase choice, s=" in made.job.stdout
    assert list(verify.differences(made.folder / "result.json")) == []


def altered(workload: str, tmp_path: Path, alter: Any) -> list[str]:
    """What is found when a choice was altered, and all that follows from it made anew."""
    result = deepcopy(run(workload).result)
    raw = result["tests"][0]["raw"]
    alter(raw, raw["choice"])
    return verified(rebuilt(result), tmp_path)


def toggled(entry: Json) -> None:
    entry["ours"] = [] if entry["ours"] else ["forward"]


def outrun(entry: Json) -> None:
    """The others were faster."""
    for passed in ("forward", "backward"):
        entry[passed][choice.VENDOR if entry["ours"] else choice.CUSTOM] = 1e-9


@pytest.mark.parametrize(
    ("alter", "claim"),
    [
        (lambda raw, found: toggled(found["products"][1]), "what the timings say"),
        (lambda raw, found: outrun(found["products"][1]), "what the timings say"),
        (lambda raw, found: found["products"].pop(), "the products of the network"),
        (lambda raw, found: found["products"].append(found["products"][0]), "the products of the network"),
        (lambda raw, found: found["products"][1].update(layers=7), "the products of the network"),
        (lambda raw, found: found["products"][0].update(shape="n8 c1"), "the products of the network"),
        (lambda raw, found: found["products"][0]["backward"].update(vendor=-1.0), "seconds > 0"),
        (lambda raw, found: found.update(rounds=10**9), "within its phase"),
        (lambda raw, found: raw["phases"].pop("choice"), "if, and only if"),
        (lambda raw, found: raw.pop("choice"), "if, and only if"),
    ],
)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_an_altered_choice_is_found_out(workload: str, alter: Any, claim: str, tmp_path: Path) -> None:
    assert any(claim in line for line in altered(workload, tmp_path, alter))


def test_so_is_one_of_batch_norms(tmp_path: Path) -> None:
    def invented(raw: Json, found: Json) -> None:
        entry = {"shape": "n8 c999 h1 w1", "layers": 1, "vendor": 1e-3, "custom": 1e-3, "ours": False}
        found["normalisations"].append(entry)

    def whole(raw: Json, found: Json) -> None:
        found["whole"] = {"vendor": 1e-3, "chosen": 1e-3} if found["whole"] is None else None

    assert any("batch norms of the network" in line for line in altered("ensemble", tmp_path, invented))
    assert any("a whole step where something is ours" in line for line in altered("ensemble", tmp_path, whole))


def test_the_choice_is_the_rules() -> None:
    for entry in run("ensemble").result["tests"][0]["raw"]["choice"]["products"]:
        assert entry["ours"] == choice.chosen(entry)


def test_a_search_has_no_choice_and_compiled_networks_neither() -> None:
    text = "a header\nanother\n[{}]\nfashion DATASET\nauto KERNELS\n1 GROUPS\n1 DEGREE\n8 BATCH\n{}"
    with pytest.raises(InputError, match=r"auto.*allowed: vendor \| custom"):
        parse(text.format("nas", ""), ranks=1)
    (case,) = parse(text.format("ensemble", "torch COMPILE\n"), ranks=1).cases(1)
    import torch

    assert "layers are timed one by one; allowed: COMPILE off" in case_checks._refused_here(case, torch.device("cpu"))

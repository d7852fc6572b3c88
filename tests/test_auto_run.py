"""Real runs with `auto KERNELS`: printed lines, derived values, and altered results that are detected."""

import re
from copy import deepcopy
from functools import cache
from typing import Any

import pytest
from examples.training import subjects_of, violated_claims
from launch import mpirun
from msgspec import ValidationError
from small_run import INPUT, WEATHER, Run, bench, rebuilt

from hpcai.errors import InputError
from hpcai.inputfile import parse
from hpcai.kernels.providers import CUSTOM, VENDOR
from hpcai.preflight import case_checks
from hpcai.record.loading import result_of
from hpcai.results import kernel_choice
from hpcai.verification import verify

pytestmark = [pytest.mark.skipif(mpirun() is None, reason="NO mpirun: AUTO KERNELS NOT RUN"), pytest.mark.slow]

Json = dict[str, Any]
RUNS = {
    "ensemble": (INPUT, ("KERNELS=auto", "GROUPS=1", "DEGREE=2")),
    "weather": (WEATHER / "input.dat", ("KERNELS=auto", "GROUPS=2", "DEGREE=1", "EPOCHS=1")),
}
WORKLOADS = ["ensemble", pytest.param("weather", marks=pytest.mark.exhaustive)]


@cache
def run(workload: str) -> Run:
    """A test on two ranks, with one model or with two."""
    path, settings = RUNS[workload]
    return bench([str(path), "--set", *settings], 2)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_choice_is_reported_measured_and_verified(workload: str) -> None:
    made = run(workload)
    (test,) = made.result["tests"]
    assert test["tv"][6] == "A"
    found = test["raw"]["preparation"]["kernel_choice"]
    assert found["rounds"] > 1 and {entry["kernel"] for entry in found["products"]} == {"conv2d", "gemm"}
    shares = test["scores"]["custom_share"]
    for name, share in (("products", "directions"), ("norms and attention", "normalisations")):
        (line,) = re.findall(rf"{name} by custom kernels, share= +([\d.]+)\n", made.job.stdout)
        assert float(line) == pytest.approx(shares[share], abs=1e-6)
    assert "throughput by custom kernels / by the vendor's=" in made.job.stdout
    assert "phase kernel choice, s=" in made.job.stdout
    assert list(verify.differences(made.folder / "result.json")) == []


def altered(workload: str, alter: Any) -> list[str]:
    """The claims that a test violates after its choice was altered; computed again, the test is FAILED."""
    result = deepcopy(run(workload).result)
    alter_entry(result["tests"][0], alter)
    assert rebuilt(result)["tests"][0]["verdict"] == "FAILED"
    (subject,) = subjects_of(result_of(run(workload).result))
    return violated_claims(subject, lambda entry: alter_entry(entry, alter))


def alter_entry(entry: Json, alter: Any) -> None:
    alter(entry["raw"], entry["raw"]["preparation"]["kernel_choice"])


def toggled(entry: Json) -> None:
    entry["custom"] = [] if entry["custom"] else ["forward"]


def outrun(entry: Json) -> None:
    """The kernels that were not chosen are faster."""
    for passed in ("forward", "backward"):
        entry[passed][VENDOR if entry["custom"] else CUSTOM] = 1e-9


@pytest.mark.parametrize(
    ("alter", "claim"),
    [
        (lambda raw, found: toggled(found["products"][1]), "as the timings say"),
        (lambda raw, found: outrun(found["products"][1]), "as the timings say"),
        (lambda raw, found: found["products"].pop(), "the products of the network"),
        (lambda raw, found: found["products"].append(found["products"][0]), "the products of the network"),
        (lambda raw, found: found["products"][1].update(layers=7), "the products of the network"),
        (lambda raw, found: found["products"][0].update(shape="n8 c1"), "the products of the network"),
        (lambda raw, found: raw["phases"].update(kernel_choice=None), "if, and only if"),
        (lambda raw, found: raw["preparation"].update(kernel_choice=None), "if, and only if"),
    ],
)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_an_altered_choice_is_detected(workload: str, alter: Any, claim: str) -> None:
    assert any(claim in line for line in altered(workload, alter))


@pytest.mark.parametrize("seconds", [-1.0, 0.0])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_seconds_that_are_not_positive_are_refused(workload: str, seconds: float) -> None:
    (subject,) = subjects_of(result_of(run(workload).result))

    def alter(entry: Json) -> None:
        alter_entry(entry, lambda raw, found: found["products"][0]["backward"].update(vendor=seconds))

    with pytest.raises(ValidationError, match=r"kernel_choice\.products\[0\]\.backward\.vendor"):
        violated_claims(subject, alter)


def test_an_altered_choice_of_norms_is_detected() -> None:
    def invented(raw: Json, found: Json) -> None:
        entry = {"shape": "n8 c999 h1 w1", "layers": 1, "vendor": 1e-3, "custom": 1e-3, "chosen": False}
        found["normalisations"].append(entry)

    def whole(raw: Json, found: Json) -> None:
        some = any(entry["custom"] for entry in found["products"]) or any(
            entry["chosen"] for entry in found["normalisations"]
        )
        found["whole"] = None if some else {"vendor": 1e-3, "chosen": 1e-3}

    assert any("norms and attention of the network" in line for line in altered("ensemble", invented))
    assert any("a whole step where something is custom" in line for line in altered("ensemble", whole))


def test_the_choice_follows_the_rule() -> None:
    (subject,) = subjects_of(result_of(run("ensemble").result))
    for product in subject.entry.raw.preparation.kernel_choice.products:
        assert product.custom == kernel_choice.chosen(product.forward, product.backward)


def test_auto_is_refused_for_searches_and_compiled_networks() -> None:
    text = "a header\nanother\n[{}]\nfashion DATASET\nauto KERNELS\n1 GROUPS\n1 DEGREE\n8 BATCH\n{}"
    with pytest.raises(InputError, match=r"auto.*allowed: vendor \| custom"):
        parse(text.format("nas", ""), ranks=1)
    (case,) = parse(text.format("ensemble", "torch COMPILE\n"), ranks=1).cases(1)
    import torch

    assert "layers are timed one by one; allowed: COMPILE off" in case_checks._refused_here(case, torch.device("cpu"))

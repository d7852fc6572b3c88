"""The workload [language] as a whole: real runs on generated text and on files, and what it refuses."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from finished_run import Run, assert_sound
from launch import mpirun
from tiny import CPU

from hpcai.errors import InputError
from hpcai.inputfile import parse
from hpcai.preflight import case_checks

Json = dict[str, Any]

needs_mpirun = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: LANGUAGE NOT TESTED")
INPUT = """\
Language models
of bytes
[language]
{dataset}    DATASET
decoder2x64  NETWORK
16           RESOLUTION
64           SAMPLES
1            GROUPS
1            DEGREE
16           BATCH
2            EPOCHS
"""
ROUNDING = 1e-5  # relative, of bits after so few steps of the same training


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two models in parallel, then one by two ranks, in fp32 and bf16."""
    text = INPUT.format(dataset="generated")
    return Run(tmp_path_factory.mktemp("generated"), text, 2, "GROUPS=2,1", "DEGREE=1,2", "PRECISION=fp32,bf16")


@pytest.fixture(scope="module")
def custom(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One model by custom kernels, and by the faster ones of each layer."""
    text = INPUT.format(dataset="generated")
    return Run(tmp_path_factory.mktemp("custom"), text, 1, "KERNELS=custom,auto")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two models on a copy of a folder of bytes."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "texts" / "inner").mkdir(parents=True)
    letters = np.random.default_rng(1).choice(list(b"etaoin "), 6000).astype(np.uint8).tobytes()
    (folder / "texts" / "one").write_bytes(letters[:2000])
    (folder / "texts" / "inner" / "two").write_bytes(letters[2000:])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HPCAI_LOCAL", str(folder))
        return Run(folder, INPUT.format(dataset="text:texts"), 2, "GROUPS=2", "STAGE=local", "EPOCHS=6")


@pytest.mark.exhaustive
@needs_mpirun
@pytest.mark.parametrize("made", ["generated", "files", "custom"])
def test_results_follow_the_schema_are_verified_and_read_by_parsers(made: str, request: pytest.FixtureRequest) -> None:
    run: Run = request.getfixturevalue(made)
    assert_sound(run)


@pytest.mark.exhaustive
@needs_mpirun
def test_rows_and_qualities(generated: Run) -> None:
    assert [test["tv"] for test in generated.tests] == ["WR40S1V4", "WR40B1V4", "WR41S1V4", "WR41B1V4"]
    assert [(test["p"], test["q"], test["n"]) for test in generated.tests] == [(2, 1, 256)] * 2 + [(1, 2, 128)] * 2
    for test in generated.tests:
        scores, raw = test["scores"], test["raw"]
        found = raw["ensemble"]["validation"]
        assert scores["quality"] == found["bits"] / found["predicted"] and found["predicted"] == 512 * 16
        assert scores["tokens_per_second"] == pytest.approx(16 * scores["samples_per_second"])
        assert 0 < scores["excess"] == pytest.approx(scores["quality"] / raw["dataset"]["ceiling"] - 1)
        assert scores["valid_flops"] == pytest.approx(scores["flops"] * (scores["target"] / scores["quality"]) ** 5)
    for two in generated.tests[:2]:
        assert two["scores"]["quality"] < two["scores"]["member_mean"] and two["scores"]["disagreement"] > 0
        assert two["raw"]["ensemble"]["bag_evaluated"] > 0 and two["scores"]["out_of_bag"] > 2.5
    line = next(line for line in generated.job.stdout.splitlines() if "quality(bpb)/target" in line)
    first = generated.tests[0]["scores"]
    assert float(line.split()[1]) == pytest.approx(first["target"] / first["quality"], abs=1e-6)


@pytest.mark.exhaustive
@needs_mpirun
def test_custom_kernels_compute_all_layers_or_the_chosen_ones(custom: Run) -> None:
    assert [test["tv"][6] for test in custom.tests] == ["C", "A"]
    own, chosen = (test["raw"]["preparation"] for test in custom.tests)
    assert own["vendor_comparison"]["gradient"]["deviation"] > 0 and own["kernel_choice"] is None
    sites = {each["shape"]: each["layers"] for each in chosen["kernel_choice"]["normalisations"]}
    assert sites == {"rms norm n16 s16 d64": 5, "attention n16 s16 d192": 2}
    assert {each["kernel"] for each in chosen["kernel_choice"]["products"]} == {"gemm"}


@pytest.mark.exhaustive
@needs_mpirun
def test_files_are_judged_by_their_test_bytes(files: Run) -> None:
    (test,) = files.tests
    ensemble, dataset = test["raw"]["ensemble"], test["raw"]["dataset"]
    name = f"text-16-{dataset['fingerprint'][:8]}"
    assert (dataset["name"], dataset["training_samples"], dataset["validation_samples"]) == (name, 64, 36)
    assert ensemble["test"]["predicted"] == 16 + 35 * 8 and ensemble["test"]["differences"] is None
    assert test["scores"]["quality"] == ensemble["test"]["bits"] / ensemble["test"]["predicted"]
    assert test["scores"]["quality"] < 7.5 and test["raw"]["staging"]["bytes"] == 6000
    assert test["raw"]["below"] is None and dataset["ceiling"] is None


@pytest.mark.exhaustive
@needs_mpirun
def test_a_divided_model_has_the_same_curve(tmp_path: Path) -> None:
    """Two heads; four ranks by data, as four shards, which have attention whole, and as two replicas of two shards.

    As stages, with a copy of the tied weights each on the first and the last one: four, two of two replicas or shards.
    """
    text = INPUT.format(dataset="generated")
    section = text[text.index("[") :]
    splits = "".join(f"{section}mixed PARALLEL\n{split} SPLIT\n" for split in ("2x2x1", "2x1x2", "1x2x2"))
    run = Run(
        tmp_path, f"{text}data tensor pipeline PARALLEL\n{splits}", 4, "DEGREE=4", "BATCH=4", "NETWORK=decoder4x128"
    )
    assert_sound(run)
    by_data, *divided = ([point["bits"] for point in test["raw"]["curve"]] for test in run.tests)
    assert [curve == pytest.approx(by_data, rel=ROUNDING) for curve in divided] == [True] * 5
    assert [test["raw"]["exchanged"] is not None for test in run.tests] == [False, True, False, True, False, True]
    assert [test["raw"]["pipeline"] is not None for test in run.tests] == [False, False, True, False, True, True]
    assert {test["verdict"] for test in run.tests} == {"PASSED"}


@pytest.mark.exhaustive
@needs_mpirun
def test_every_precision_by_data_and_by_stages_with_clipped_gradients(tmp_path: Path) -> None:
    precisions = "bf16,fp16,pure16,halffp16,int8"
    settings = ["DEGREE=2", "PARALLEL=data,pipeline", f"PRECISION={precisions}", "CLIP=1"]
    run = Run(tmp_path, INPUT.format(dataset="generated"), 2, *settings)
    assert_sound(run)
    assert {test["tv"][4:6] for test in run.tests} == {f"{letter}{way}" for letter in "BHPFI" for way in "13"}
    assert {test["verdict"] for test in run.tests} == {"PASSED"}


def check(settings: list[str]) -> None:
    """Read the input with changed settings, and check its cases."""
    problem = parse(INPUT.format(dataset="generated").encode(), settings, 2, lambda spec: None, "input.dat")
    case_checks.check(problem.cases(2), CPU)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["NETWORK=resnet8"], "NETWORK: resnet8 is unknown.*decoder4x128"),
        (["PRECISION=int8", "PARALLEL=tensor", "DEGREE=2"], "PRECISION int8: bytes have one scale a tensor"),
        (["PRECISION=int8", "KERNELS=auto"], "KERNELS auto with PRECISION int8"),
        (["PARALLEL=pipeline", "DEGREE=2", "KERNELS=auto"], "KERNELS auto: layers are timed in a step of the whole"),
        (["COMPILE=torch"], "COMPILE"),
        (["TARGET=9"], "TARGET: 9 is out of range.*8.0"),
        (["CLASSES=10"], "CLASSES: 10 is out of range"),
    ],
)
def test_what_it_cannot_do_is_refused_in_one_line(settings: list[str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        check(settings)

"""The printed layers of a network under the measured roofline, below the kernels."""

from sample_kernel_rows import case_of, raw_of
from sample_records import MEMORY, with_fields

from hpcai.results.measured import Before, Measured
from hpcai.workloads.kernels.checks import build, rows
from hpcai.workloads.kernels.layer_lines import layers
from hpcai.workloads.kernels.lines import block
from hpcai.workloads.kernels.record import KernelsRaw

CASE = case_of("resnet8", "64", batch=32)


def printed(raw: KernelsRaw | None = None) -> list[str]:
    return list(layers(CASE, "resnet8", rows(CASE, raw or raw_of(CASE))))


def line(lines: list[str], shape: str) -> list[str]:
    (found,) = [line for line in lines if line.startswith(shape)]
    return found[len(shape) :].split()


def test_each_distinct_layer_by_hand() -> None:
    """32 x 32 images: 16 channels of them both sides of a 3 x 3 convolution, twice; 1 of 8 GFLOP/s, 2.4 GB/s."""
    lines = printed()
    assert "ridge at 3.33 FLOP per byte, FMA peak 8.00 GFLOP/s / triad 2.40 GB/s" in lines[0]
    intensity = 2 * 32 * 16 * 16 * 9 * 1024 / (4 * (2 * 32 * 16 * 1024 + 16 * 16 * 9))
    expected = ["2", *[f"{intensity:.3f}"] * 3, *["0.125"] * 3, "compute"]
    assert line(lines, "n32 c16 h32 w32 f16 k3x3 s1x1 p1x1") == expected


def test_the_first_layer_has_no_input_gradient() -> None:
    first = line(printed(), "n32 c3 h32 w32 f16 k3x3 s1x1 p1x1")
    assert (first[2], first[5]) == ("-", "-")


def test_below_the_ridge_memory_is_the_bound() -> None:
    """A 1 x 1 convolution of stride 2: 2.4 GB/s at its FLOP per byte is less than the peak."""
    found = line(printed(), "n32 c16 h32 w32 f32 k1x1 s2x2 p0x0")
    assert found[-1] == "memory" and float(found[1]) < 8 / 2.4
    assert float(found[4]) == round(1 / (2.4 * float(found[1])), 3)


def test_only_products_that_passed_have_a_share() -> None:
    raw = raw_of(CASE)
    wrong = [with_fields(row, residual=2.0) if row.direction == "weight_gradient" else row for row in raw.rows]
    assert line(printed(with_fields(raw, rows=wrong)), "n32 c16 h32 w32 f16 k3x3 s1x1 p1x1")[4:] == [
        "0.125",
        "0.125",
        "-",
        "compute",
    ]


def test_without_ceilings_only_intensities_are_printed() -> None:
    raw = raw_of(CASE)
    lines = printed(with_fields(raw, rows=[row for row in raw.rows if row.kernel != "triad"]))
    assert lines[0].endswith("FMA peak or triad not measured")
    found = line(lines, "n32 c16 h32 w32 f16 k3x3 s1x1 p1x1")
    assert found[1] == "35.921" and found[4:] == ["-"] * 4


def test_shares_of_the_bytes_add_up() -> None:
    shares = printed()[-1].split(": ")[1].split(", ")
    assert abs(sum(float(share.split()[-2]) for share in shares) - 100) < 0.5
    assert shares[0].startswith("batch norm")


def test_layers_are_printed_once_below_each_network() -> None:
    text = block(build(CASE, Measured(raw_of(CASE), MEMORY), Before()), rows(CASE, raw_of(CASE)))
    assert text.count("under the roofline") == 1 and "square under" not in text
    assert max(map(len, text.splitlines())) <= 200 and "...\n" not in text

"""The printed table of a case of `[kernels]`: aligned, within the width, and without a row for parsers made for HPL."""

import re

from sample_kernel_rows import case_of, raw_of
from sample_records import MEMORY, altered, with_fields

from hpcai.results.alterations import changed
from hpcai.results.measured import Before, Measured
from hpcai.workloads.kernels.checks import build, rows
from hpcai.workloads.kernels.lines import HEAD, OF_ATTENTION, block
from hpcai.workloads.kernels.record import KernelsRaw

CASE = case_of("resnet50", "64")


def lines_of(raw: KernelsRaw) -> list[str]:
    return block(build(CASE, Measured(raw, MEMORY), Before()), rows(CASE, raw)).splitlines()


def test_every_row_has_a_line_with_its_numbers() -> None:
    raw = raw_of(CASE)
    lines = lines_of(raw)
    for row in rows(CASE, raw):
        if row.of != "ceiling":
            words = f"{row.direction:<15} {row.dtype:<5} {row.provider:<8} {1e3 * row.seconds:12.4f}"
            (line,) = (line for line in lines if line.startswith(f"{row.shape} ") and words in line)
            assert f"{row.ratio:.3f}" in line and line.rstrip().endswith(row.verdict)
    assert sum("FMA peak fp" in line for line in lines) == 2
    assert any("triad fp64, custom" in line and "2.40 GB/s a rank" in line and "4.80 all" in line for line in lines)


def test_columns_are_aligned_and_lines_are_short() -> None:
    lines = lines_of(raw_of(CASE))
    end = HEAD.index("verdict")
    products = [line for line in lines if re.match(r"[mn]\d", line)]
    assert len(products) > 100
    assert {line[end:] for line in products} == {"PASSED"}
    assert max(map(len, lines)) <= 200 and not any(line != line.rstrip() for line in lines)


def test_sums_of_a_step_and_missing_kernels_are_printed() -> None:
    raw = raw_of(CASE)
    text = "\n".join(lines_of(raw))
    assert re.search(r"convolutions, 158 in a step +: custom \d+\.\d{4} ms, vendor \d+\.\d{4} ms, ratio 1\.500;", text)
    assert "not measured: triad fp64, vendor: Passed no test" in text
    alone = with_fields(raw, rows=[row for row in raw.rows if row.provider == "custom"])
    assert "vendor - ms; each by the faster provider 1.00 GFLOP/s" in "\n".join(lines_of(alone))


def test_variants_and_the_kind_of_check_are_printed() -> None:
    fields = {"variant": "channels_last", "checked": "random vectors", "residual": 3.0}
    raw = altered(raw_of(CASE), *(changed(f"rows.-1.{name}", value) for name, value in fields.items()))
    line = next(line for line in lines_of(raw) if "channels_last" in line)
    assert line.endswith("FAILED, channels_last, random vectors") and len(line) <= 200


def test_no_line_looks_like_a_row_of_hpl() -> None:
    text = "\n".join(lines_of(raw_of(CASE)))
    assert "WR" not in text and " Gflops" not in text
    assert not re.search(r"\d+\s+\d+\s+\d+\s+\d+\s+\d*\.\d+\s+\d", text)


def test_the_letters_of_attention_are_explained_where_it_is_measured() -> None:
    decoder = case_of("decoder2x64", batch=1)
    text = block(build(decoder, Measured(raw_of(decoder), MEMORY), Before()), rows(decoder, raw_of(decoder)))
    assert f"\n  {OF_ATTENTION}\n" in text and OF_ATTENTION not in "\n".join(lines_of(raw_of(CASE)))

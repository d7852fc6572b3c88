"""Known answers of scores and operation counts: given by the program, and a wrong one refuses the run."""

from dataclasses import replace
from typing import Any

import pytest
from launch import mpirun, run_job

from hpcai import opcount
from hpcai.errors import HpcaiError
from hpcai.formulas import aiperf, roofline, score
from hpcai.kernels import gemm
from hpcai.preflight import formula_answers


def test_the_program_gives_the_known_answers() -> None:
    formula_answers.check()


@pytest.mark.parametrize(("owner", "name"), [
    (score, "flops"), (score, "valid_flops"), (score, "disagreement"), (score, "efficiency"),
    (aiperf, "ops"), (aiperf, "regulated"), (aiperf, "error"), (roofline, "moved_in_all_reduce"),
], ids=str)  # fmt: skip
def test_a_wrong_score_is_refused(owner: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *arguments: 2 * genuine(*arguments))
    with pytest.raises(HpcaiError, match="its known answer"):
        formula_answers.check()


@pytest.mark.parametrize("rule", opcount.RULES)
def test_a_wrong_operation_count_is_refused(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = opcount.RULES[rule]

    def more(layer: Any) -> tuple[int, int]:
        forward, backward = genuine(layer)
        return forward + 1, backward

    monkeypatch.setitem(opcount.RULES, rule, more)
    with pytest.raises(HpcaiError, match=f"rule {rule} gives .*its known answer"):
        formula_answers.check()


def test_wrong_operations_of_a_product_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm, "SPEC", replace(gemm.SPEC, operations=lambda shape: 1))
    with pytest.raises(HpcaiError, match="operations of a product"):
        formula_answers.check()


@pytest.mark.slow
@pytest.mark.skipif(mpirun() is None, reason="NO mpirun: FAULT NOT PLANTED")
def test_a_run_with_a_wrong_score_is_refused(tmp_path: Any) -> None:
    (tmp_path / "x.dat").write_text("a\nb\n[kernels]\n16 SHAPES\n")
    program = tmp_path / "wrong.py"
    program.write_text(
        "import sys; from hpcai.formulas import score; from hpcai import main\n"
        "genuine = score.flops; score.flops = lambda *given: 2 * genuine(*given)\n"
        "sys.exit(main.main(['x.dat']))\n"
    )
    job = run_job([program], 2, tmp_path)
    assert job.returncode == 3 and "gives 6.0; allowed: 3.0, its known answer" in job.stderr, job.stderr

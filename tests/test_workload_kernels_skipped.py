"""Custom and vendor kernels that compute in their first call only, while `[kernels]` measures them: they FAIL."""

from collections.abc import Callable
from typing import Any

import pytest
from sampled_parameters import slow
from test_workload_kernels import SMALL, few_calls, measured

from hpcai.workloads.kernels.checks import rows


def watched(left: float | None, prepare: Callable[..., Any]) -> Callable[..., Any]:
    """A backend that computes once, and then leaves this or nothing new."""

    def prepared(*arguments: Any) -> Any:
        return [_computing_once(way, left) for way in prepare(*arguments)]

    return prepared


def _computing_once(way: Any, left: float | None) -> Any:
    calls = 0

    def watched(compute: Callable[[], Any]) -> Callable[[], None]:
        def call() -> None:
            nonlocal calls
            calls += 1
            if calls == 1:
                compute()
            elif left is not None:
                way.result()[...] = left

        return call

    return way._replace(call=watched(way.call), bind=lambda data: watched(way.bind(data)))


@pytest.mark.slow
@pytest.mark.parallel(2)
@pytest.mark.parametrize("left", slow([0.0], [0.0, None]), ids=["zeros", "nothing"])
def test_kernels_that_compute_only_while_they_are_checked_fail(
    monkeypatch: pytest.MonkeyPatch, left: float | None
) -> None:
    from hpcai.kernels.conv2d import numba_cpu as conv2d
    from hpcai.kernels.fma_peak import numba_cpu as fma_peak
    from hpcai.kernels.gemm import numba_cpu as gemm
    from hpcai.kernels.gemm import vendor
    from hpcai.kernels.triad import numba_cpu as triad

    few_calls(monkeypatch)
    for module in (conv2d, fma_peak, gemm, triad, vendor):
        monkeypatch.setattr(module, "prepare", watched(left, module.prepare))
    found = rows(SMALL, measured(SMALL))
    passed = {(row.kernel, row.provider) for row in found if row.verdict == "PASSED"}
    assert passed == {("conv2d", "vendor"), ("triad", "vendor")}

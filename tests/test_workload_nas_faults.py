"""Faults in a search: wrong morphs are FAILED, failed trials are counted, and other groups continue."""

from typing import Any

import network_faults
import pytest
import search_faults
from sampled_parameters import slow_one_in
from search_runs import searched, verdicts
from test_workload_nas import rank, size

from hpcai.record import check_declarations as declared
from hpcai.record.check_declarations import CEILING, EVALUATED, RECOUNTED, CheckDeclaration
from hpcai.workloads.nas.checks import PRESERVATION


@pytest.mark.parallel(2)
def test_a_wrong_morph_fails_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    from hpcai.search import child_builder

    inherit = child_builder.inherit

    def wrong(graph: Any, morphism: Any, state: Any, *rest: Any) -> Any:
        found = inherit(graph, morphism, state, *rest)
        return {name: value * (1 + 1e-6) if name.endswith("conv1.weight") else value for name, value in found.items()}

    monkeypatch.setattr(child_builder, "inherit", wrong)
    run = searched(GROUPS=size(), ROUNDS=2)
    if rank() == 0:
        entry = run.entry
        assert verdicts(entry)[PRESERVATION.name] == "FAILED" and entry.verdict == "FAILED"
        assert [name for name, verdict in verdicts(entry).items() if verdict == "FAILED"] == [PRESERVATION.name]


FAULTS = {
    "parent_weights_of_another_search": {declared.CLAIMS.name},
    "relu_left_out": {declared.NETWORK.name},
    "initial_weights_halved": {declared.WEIGHTS.name},
}


@pytest.mark.parallel(2)
@pytest.mark.parametrize("fault", slow_one_in(2, FAULTS))
def test_a_fault_in_weights_or_network_is_found_by_its_check(fault: str) -> None:
    module = search_faults if hasattr(search_faults, fault) else network_faults
    with getattr(module, fault)():
        run = searched(GROUPS=size(), ROUNDS=3)
    if rank() == 0:
        failed = {name for name, verdict in verdicts(run.entry).items() if verdict == "FAILED"}
        assert failed == FAULTS[fault]


@pytest.mark.parallel(2)
def test_a_trial_that_diverges_is_recorded_and_the_group_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    from hpcai.train.loop import Training

    close = Training._close_epoch

    def diverges(self: Any) -> Any:
        loss = close(self)
        return None if self.group.coordinates.group == self.group.groups - 1 and self.recipe.epochs == 4 else loss

    monkeypatch.setattr(Training, "_close_epoch", diverges)
    run = searched(GROUPS=size())
    if rank() == 0:
        ends = {trial.worker: trial.end for trial in run.trials}
        assert ends[size() - 1] == "diverged" and len(run.trials) == 3 * size()
        failed = {trial.id for trial in run.trials if trial.end == "diverged"}
        assert not failed & {trial.parent for trial in run.trials}
        assert run.entry.verdict == "PASSED", verdicts(run.entry)


@pytest.mark.slow
@pytest.mark.parallel(2)
def test_an_infinite_loss_of_finite_outputs_is_a_divergence(monkeypatch: pytest.MonkeyPatch) -> None:
    from hpcai.train.validation import Validation

    monkeypatch.setattr(Validation, "_mean_loss", lambda self, group, counted: float("inf"))
    run = searched(GROUPS=size(), ROUNDS=2)
    if rank() == 0:
        assert {trial.end for trial in run.trials} == {"diverged"}
        assert {entry.validation_loss for trial in run.trials for entry in trial.curve} == {None}
        assert run.entry.verdict == "PASSED", verdicts(run.entry)


@pytest.mark.exhaustive
@pytest.mark.parallel(2)
def test_a_trial_without_memory_is_recorded_and_the_group_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    from hpcai.training import assembly

    full = assembly.has_room
    monkeypatch.setattr(assembly, "has_room", lambda *args: rank() != size() - 1 and full(*args))
    run = searched(GROUPS=size())
    if rank() == 0:
        assert {trial.end for trial in run.trials if trial.worker == size() - 1} == {"memory"}
        assert len(run.trials) == 3 * size()
        assert run.entry.verdict == "PASSED", verdicts(run.entry)


@pytest.mark.parallel(2)
def test_a_lack_of_memory_on_one_rank_ends_the_trial_of_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    from hpcai.training import assembly

    full = assembly.has_room
    monkeypatch.setattr(assembly, "has_room", lambda *args: rank() != size() - 1 and full(*args))
    settings = {"GROUPS": 1, "DEGREE": size(), "ROUNDS": 2}
    run = searched(**settings)
    if rank() == 0:
        assert [trial.end for trial in run.trials] == ["memory", "memory"]


@pytest.mark.parallel(2)
def test_a_lack_of_memory_on_the_host_is_detected() -> None:
    import torch

    from hpcai import networks
    from hpcai.models.module import build
    from hpcai.training.assembly import has_room

    graph = networks.build("resnet8", (8, 8), 1, 4)
    module, cpu = build(graph, 1), torch.device("cpu")
    assert has_room(module, 4, graph, cpu)
    assert not has_room(module, 2**44, graph, cpu)
    assert all(parameter.grad is None for parameter in module.parameters())


@pytest.mark.slow
@pytest.mark.parallel(2)
def test_a_group_that_breaks_leaves_and_its_trial_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    from hpcai.workloads.nas import measure

    if size() == 1:
        pytest.skip("NO OTHER GROUP THAT COULD GO ON")
    assemble = measure.trial_training

    def breaks(case: Any, group: Any, *rest: Any) -> Any:
        plan = rest[-2]
        if group.coordinates.group == group.groups - 1 and plan.round == 2:
            raise RuntimeError("the device has fallen off the bus")
        return assemble(case, group, *rest)

    monkeypatch.setattr(measure, "trial_training", breaks)
    run = searched(GROUPS=size())
    if rank() == 0:
        last = [trial.end for trial in run.trials if trial.worker == size() - 1]
        assert last == ["planned", "lost"] and run.raw.retired_groups == 1
        assert len(run.trials) == 3 * size() - 1
        assert run.entry.verdict == "PASSED", verdicts(run.entry)


@pytest.mark.parallel(2)
def test_operations_that_were_not_executed_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    from hpcai.train.loop import Training

    step = Training._step

    def lazy(self: Any, x: Any, y: Any) -> None:
        step(self, x[: len(x) // 2], y[: len(y) // 2])

    monkeypatch.setattr(Training, "_step", lazy)
    run = searched(GROUPS=size(), ROUNDS=1)
    if rank() == 0:
        assert verdicts(run.entry)["operations credited, not executed: samples"] == "FAILED"


@pytest.mark.parallel(2)
@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("every_sample_counted_as_correct", RECOUNTED),
        ("run_reports_more_than_counted", RECOUNTED),
        ("least_likely_class_predicted", EVALUATED),
    ],
)
def test_a_search_that_validates_wrongly_is_detected(fault: str, check: CheckDeclaration) -> None:
    import judgement_faults

    with getattr(judgement_faults, fault)():
        run = searched(GROUPS=size(), ROUNDS=1)
    if rank() == 0:
        failed = {name for name, verdict in verdicts(run.entry).items() if verdict == "FAILED"}
        assert check.name in failed and failed <= {check.name, CEILING.name}

"""A leader requests its next trial step by step: from the real coordinator, with a thread that tests control."""

from collections.abc import Sequence

import pytest
from local_transport import LocalTransport, Thread

from hpcai.networks.morphism import Deepen, Widen
from hpcai.record.trial import Hyperparameters
from hpcai.search.messages import (
    Claim,
    FinishedTrial,
    RecordedTrial,
    Result,
    line,
)
from hpcai.search.proposal import Proposal
from hpcai.search.search_rules import SearchRules
from hpcai.search.trial_plan import TrialPlan
from hpcai.search.trial_request import TrialRequest
from hpcai.search.weights_file import WeightsRemoved

DEEPER, WIDER = Deepen("stem_relu", 3), Widen("stage1_block1_conv1", 24)
HYPERPARAMETERS = Hyperparameters(batch=32, kernel=7)


class Suggester:
    """Suggests given networks, by attempt."""

    rejected, taken = 3, ()

    def __init__(self, *networks: Sequence[str]) -> None:
        self.networks, self.learnt, self.asked = networks, list[FinishedTrial](), list[tuple[int, int]]()

    def learn(self, trials: Sequence[FinishedTrial]) -> None:
        self.learnt += trials

    def suggest(self, round_: int, attempt: int) -> list[Proposal]:
        self.asked.append((round_, attempt))
        return [Proposal(5, (WIDER,), (DEEPER,), name, HYPERPARAMETERS) for name in self.networks[attempt]]


class ChildBuilder:
    """Builds nothing; the parent's weights of some trials are removed, once."""

    def __init__(self) -> None:
        self.plans: list[TrialPlan] = []
        self.removed = 0

    def build(self, plan: TrialPlan, compare: bool) -> str:
        assert compare
        self.plans.append(plan)
        if self.removed:
            self.removed -= 1
            raise WeightsRemoved("trial 5")
        return f"network of {plan.id}"


def made(
    suggester: Suggester,
    rules: SearchRules = SearchRules(2),  # noqa: B008
) -> tuple[TrialRequest, LocalTransport, Thread, ChildBuilder]:
    transport, thread, builder = LocalTransport(rules), Thread(), ChildBuilder()
    request = TrialRequest(transport, suggester, builder, thread, 0, lambda round_: (15 * round_, 6))  # type: ignore[arg-type]
    return request, transport, thread, builder


def until(request: TrialRequest, thread: Thread) -> None:
    """Poll and work until the trial is ready or there is none."""
    for _ in range(50):
        request.poll()
        if request.ready:
            return
        if thread.waiting:
            thread.work()
    raise AssertionError("no trial")


def test_a_trial_is_requested_chosen_claimed_and_built_in_sequence() -> None:
    suggester = Suggester(["a", "b"])
    request, transport, thread, _ = made(suggester)
    finished = FinishedTrial(2, 1, 0.5, 0.5, True, (), HYPERPARAMETERS)
    transport.other(Claim(1, 1, ("a",)))
    transport.other(Result(1, 2, 1, 0.5, True), line(finished), b"")
    request.begin(3)
    assert transport.sent == ["ask"] and not request.closed and not suggester.asked
    assert not request.poll() and not suggester.asked and transport.sent == ["ask"]
    thread.work()
    assert suggester.learnt == [finished] and suggester.asked == [(3, 0)] and transport.sent == ["ask"]
    request.poll()
    assert transport.sent == ["ask", "claim"] and request.plan
    assert request.closed and not request.ready
    thread.work()
    assert request.ready and not request.ended and request.child and str(request.child.result()) == "network of 5"
    assert request.plan == TrialPlan(5, 0, 3, 7.5, 5, (WIDER,), (DEEPER,), HYPERPARAMETERS, 45, 6)
    assert request.proposals.count == 1 and request.waits.count == 2 and request.rejected == 3


def test_known_trials_are_not_sent_again() -> None:
    suggester = Suggester(["a", "b", "c", "d"])
    request, transport, thread, _ = made(suggester)
    for round_ in (1, 2):
        transport.other(Claim(1, round_, (f"other {round_}",)))
        finished = FinishedTrial(2 * round_, round_, 0.5, 0.5, True, (), HYPERPARAMETERS)
        transport.other(Result(1, 2 * round_, round_, 0.5, True), line(finished), b"")
        request.begin(round_)
        until(request, thread)
        assert len(suggester.learnt) == round_
    assert request.plan and request.plan.id == 3


def test_other_networks_are_claimed_if_all_were_granted_before() -> None:
    suggester = Suggester(["a", "b"], ["b"], ["a", "c"])
    request, transport, thread, _ = made(suggester)
    for round_, name in ((1, "a"), (2, "b")):
        transport.other(Claim(1, round_, (name,)))
    request.begin(1)
    until(request, thread)
    assert suggester.asked == [(1, 0), (1, 1), (1, 2)] and transport.sent == ["ask", "claim", "claim", "claim"]
    assert transport.coordinator.counts.duplicates == 4


def test_a_trial_with_a_removed_parent_is_replaced_by_another() -> None:
    suggester = Suggester(["a"], ["b"], ["c"])
    request, transport, thread, builder = made(suggester)
    builder.removed = 2
    request.begin(1)
    while not request.ready or isinstance(request.child and request.child.exception(), WeightsRemoved):
        request.poll()
        if thread.waiting:
            thread.work()
    assert transport.sent == ["ask", "claim", "forgo"] * 2 + ["ask", "claim"]
    assert request.plan and request.plan == builder.plans[-1]
    assert transport.coordinator.counts.granted == transport.coordinator.running == 1


def test_a_request_may_end_without_a_trial() -> None:
    request, _, thread, _ = made(Suggester(["a"]), SearchRules(2, rounds=1))
    request.begin(1)
    until(request, thread)
    assert not request.ended
    request.begin(2)
    until(request, thread)
    assert request.ended and request.plan is None and request.child is None and request.closed


def test_a_recorded_trial_is_not_chosen() -> None:
    chosen = Hyperparameters(batch=16, kernel=5)
    trial = RecordedTrial(1, 0, 1, None, (WIDER,), (DEEPER,), chosen)
    suggester = Suggester()
    request, transport, thread, _ = made(suggester, SearchRules(2, recorded={1: trial}))
    request.begin(1)
    until(request, thread)
    assert request.plan == TrialPlan(1, 0, 1, 7.5, None, (WIDER,), (DEEPER,), chosen, 15, 6)
    assert transport.sent == ["ask"] and not suggester.asked


def test_the_confirmation_of_a_result_is_distinguished() -> None:
    request, transport, thread, _ = made(Suggester(["a"]))
    request.begin(1)
    until(request, thread)
    transport.send(Result(0, 1, 1, 0.5, True), b"{}", b"{}")
    assert [request.poll(), request.poll()] == [True, False]
    assert request.waits.count == 2


@pytest.mark.parametrize("steps", range(6))
def test_a_trial_granted_at_the_end_of_the_search_is_returned(steps: int) -> None:
    """In any state of the leader when it closes."""
    request, transport, thread, _ = made(Suggester(["a"]))
    request.begin(2)
    for step in range(steps):
        if step % 2 and thread.waiting:
            thread.work()
        else:
            request.poll()
    request.close(1)
    while not request.closed:
        request.poll()
    assert transport.coordinator.counts.granted == transport.coordinator.running == 0
    assert ("forgo" in transport.sent) == (steps > 2)


def test_a_trial_granted_after_the_end_is_returned_too() -> None:
    request, transport, thread, _ = made(Suggester(["a"]))
    request.begin(2)
    request.poll()
    thread.work()
    transport.slow = True
    request.poll()
    request.close(1)
    request.poll()
    assert transport.sent == ["ask", "claim"] and not request.closed
    transport.slow = False
    request.poll()
    assert request.closed and transport.sent == ["ask", "claim", "forgo"] and transport.coordinator.running == 0


def test_a_trial_that_has_begun_is_not_returned() -> None:
    request, transport, thread, _ = made(Suggester(["a"]))
    request.begin(2)
    until(request, thread)
    request.close(2)
    assert request.closed and "forgo" not in transport.sent and transport.coordinator.running == 1


def test_a_choice_that_fails_is_an_error() -> None:
    request, _, thread, _ = made(Suggester())
    request.begin(1)
    with pytest.raises(IndexError):
        until(request, thread)

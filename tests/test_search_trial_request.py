"""A leader gets its next trial bit by bit: from the real coordinator, with a thread whose work the tests do."""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from hpcai.search.child_builder import Gone
from hpcai.search.coordinator import Coordinator, Rules
from hpcai.search.messages import decoded, encoded
from hpcai.search.trial_plan import Plan
from hpcai.search.trial_request import Errand, Proposal

Json = dict[str, Any]
DEEPER = {"operation": "deepen", "after": "stem_relu", "kernel": 3}
WIDER = {"operation": "widen", "layer": "stage1_block1_conv1", "channels": 24}


class Thread(Executor):
    """Does what it was given when it is told to."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()

    def submit(self, do: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.waiting.append((future, lambda: do(*args, **named)))
        return future

    def work(self) -> None:
        future, do = self.waiting.popleft()
        try:
            future.set_result(do())
        except (Gone, IndexError) as error:
            future.set_exception(error)


class Straight:
    """A line to a coordinator in this process; answers arrive at once, those to other workers nowhere."""

    def __init__(self, rules: Rules) -> None:
        self.coordinator = Coordinator(rules, lambda message: None)
        self.sent: list[str] = []
        self.slow = False
        self._answers: deque[bytes] = deque()

    def send(self, message: Json, *lines: bytes) -> None:
        self.sent.append(message["kind"])
        for worker, answer in self.coordinator.handle(decoded(encoded(message, *lines)), 7.5):
            if worker == 0:
                self._answers.append(answer)

    def other(self, **message: Any) -> None:
        """A message of another worker."""
        for worker, answer in self.coordinator.handle({"worker": 1, "lines": [], **message}, 0.0):
            if worker == 0:
                self._answers.append(answer)

    def receive(self) -> Json | None:
        return decoded(self._answers.popleft()) if self._answers and not self.slow else None


class Chooser:
    """Proposes what it is told to, by attempt."""

    rejected = 3

    def __init__(self, *networks: Sequence[str]) -> None:
        self.networks, self.learnt, self.asked = networks, list[Json](), list[tuple[int, int]]()

    def learn(self, entries: Sequence[Json]) -> None:
        self.learnt += entries

    def proposals(self, round_: int, attempt: int) -> list[Proposal]:
        self.asked.append((round_, attempt))
        return [Proposal(5, [WIDER], [DEEPER], name, 32, 7) for name in self.networks[attempt]]


class Nursery:
    """Raises nothing; of some trials the parent is gone, once."""

    def __init__(self) -> None:
        self.raised_plans: list[Plan] = []
        self.gone = 0

    def raised(self, plan: Plan, checks: bool) -> str:
        assert checks
        self.raised_plans.append(plan)
        if self.gone:
            self.gone -= 1
            raise Gone("trial 5")
        return f"network of {plan.id}"


def made(chooser: Chooser, rules: Rules = Rules(2)) -> tuple[Errand, Straight, Thread, Nursery]:  # noqa: B008
    line, thread, nursery = Straight(rules), Thread(), Nursery()
    errand = Errand(line, chooser, nursery, thread, 0, lambda round_: (15 * round_, 6))  # type: ignore[arg-type]
    return errand, line, thread, nursery


def until(errand: Errand, thread: Thread) -> None:
    """Poll and work until the trial is ready or there is none."""
    for _ in range(50):
        errand.poll()
        if errand.ready:
            return
        if thread.waiting:
            thread.work()
    raise AssertionError("no trial")


def test_a_trial_is_asked_for_chosen_claimed_and_raised_one_after_the_other() -> None:
    chooser = Chooser(["a", "b"])
    errand, line, thread, _ = made(chooser)
    entry = b'{"id":2,"chain":[]}'
    line.other(kind="claim", round=1, networks=["a"])
    line.other(kind="result", id=2, round=1, value=0.5, parent=True, lines=[entry, b""])
    errand.begin(3)
    assert line.sent == ["ask"] and not errand.closed and not chooser.asked
    assert not errand.poll() and not chooser.asked and line.sent == ["ask"]
    thread.work()
    assert chooser.learnt == [{"id": 2, "chain": []}] and chooser.asked == [(3, 0)] and line.sent == ["ask"]
    errand.poll()
    assert line.sent == ["ask", "claim"] and errand.plan
    assert errand.closed and not errand.ready
    thread.work()
    assert errand.ready and not errand.ended and errand.child and str(errand.child.result()) == "network of 5"
    assert errand.plan == Plan(5, 0, 3, 7.5, 5, [WIDER], [DEEPER], 32, 7, 45, 6)
    assert len(errand.seconds) == 1 and len(errand.waits) == 2 and errand.rejected == 3


def test_what_is_known_is_not_told_again() -> None:
    chooser = Chooser(["a", "b", "c", "d"])
    errand, line, thread, _ = made(chooser)
    for round_ in (1, 2):
        line.other(kind="claim", round=round_, networks=[f"other {round_}"])
        line.other(kind="result", id=2 * round_, round=round_, value=0.5, parent=True, lines=[b"{}", b""])
        errand.begin(round_)
        until(errand, thread)
        assert len(chooser.learnt) == round_
    assert errand.plan and errand.plan.id == 3


def test_where_all_are_taken_others_are_claimed() -> None:
    chooser = Chooser(["a", "b"], ["b"], ["a", "c"])
    errand, line, thread, _ = made(chooser)
    for round_, name in ((1, "a"), (2, "b")):
        line.other(kind="claim", round=round_, networks=[name])
    errand.begin(1)
    until(errand, thread)
    assert chooser.asked == [(1, 0), (1, 1), (1, 2)] and line.sent == ["ask", "claim", "claim", "claim"]
    assert line.coordinator.counts.duplicates == 4


def test_a_trial_whose_parent_is_gone_is_given_back_for_another() -> None:
    chooser = Chooser(["a"], ["b"], ["c"])
    errand, line, thread, nursery = made(chooser)
    nursery.gone = 2
    errand.begin(1)
    while not errand.ready or isinstance(errand.child and errand.child.exception(), Gone):
        errand.poll()
        if thread.waiting:
            thread.work()
    assert line.sent == ["ask", "claim", "forgo"] * 2 + ["ask", "claim"]
    assert errand.plan and errand.plan == nursery.raised_plans[-1]
    assert line.coordinator.counts.granted == line.coordinator.running == 1


def test_there_may_be_no_trial() -> None:
    errand, _, thread, _ = made(Chooser(["a"]), Rules(2, rounds=1))
    errand.begin(1)
    until(errand, thread)
    assert not errand.ended
    errand.begin(2)
    until(errand, thread)
    assert errand.ended and errand.plan is None and errand.child is None and errand.closed


def test_a_recorded_trial_is_not_chosen() -> None:
    trial = {"id": 1, "worker": 0, "round": 1, "parent": None, "ancestry": [WIDER], "morphisms": [DEEPER]}
    trial["hyperparameters"] = {"batch": 16, "kernel": 5}
    chooser = Chooser()
    errand, line, thread, _ = made(chooser, Rules(2, recorded={1: trial}))
    errand.begin(1)
    until(errand, thread)
    assert errand.plan == Plan(1, 0, 1, 7.5, None, [WIDER], [DEEPER], 16, 5, 15, 6)
    assert line.sent == ["ask"] and not chooser.asked


def test_the_result_that_was_taken_in_is_told_apart() -> None:
    errand, line, thread, _ = made(Chooser(["a"]))
    errand.begin(1)
    until(errand, thread)
    result = {"kind": "result", "worker": 0, "id": 1, "round": 1, "value": 0.5, "parent": True}
    line.send(result, b"{}", b"{}")
    assert [errand.poll(), errand.poll()] == [True, False]
    assert len(errand.waits) == 2


@pytest.mark.parametrize("steps", range(6))
def test_what_is_granted_when_the_search_is_over_is_given_back(steps: int) -> None:
    """Whatever the leader waits for when it closes."""
    errand, line, thread, _ = made(Chooser(["a"]))
    errand.begin(2)
    for step in range(steps):
        if step % 2 and thread.waiting:
            thread.work()
        else:
            errand.poll()
    errand.close(1)
    while not errand.closed:
        errand.poll()
    assert line.coordinator.counts.granted == line.coordinator.running == 0
    assert ("forgo" in line.sent) == (steps > 2)


def test_what_is_granted_after_that_is_given_back_too() -> None:
    errand, line, thread, _ = made(Chooser(["a"]))
    errand.begin(2)
    errand.poll()
    thread.work()
    line.slow = True
    errand.poll()
    errand.close(1)
    errand.poll()
    assert line.sent == ["ask", "claim"] and not errand.closed
    line.slow = False
    errand.poll()
    assert errand.closed and line.sent == ["ask", "claim", "forgo"] and line.coordinator.running == 0


def test_a_trial_that_has_begun_is_not_given_back() -> None:
    errand, line, thread, _ = made(Chooser(["a"]))
    errand.begin(2)
    until(errand, thread)
    errand.close(2)
    assert errand.closed and "forgo" not in line.sent and line.coordinator.running == 1


def test_a_choice_that_fails_is_not_passed_over() -> None:
    errand, _, thread, _ = made(Chooser())
    errand.begin(1)
    with pytest.raises(IndexError):
        until(errand, thread)

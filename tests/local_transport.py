"""A transport and a thread for tests of one leader: messages arrive at once, the thread works when a test asks."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from hpcai.search.coordinator import Coordinator
from hpcai.search.messages import Answer, Request, decoded_answer, decoded_request, encoded
from hpcai.search.search_rules import SearchRules
from hpcai.search.weights_file import WeightsRemoved


class Thread(Executor):
    """Runs the submitted functions when `work` is called."""

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
        except (WeightsRemoved, IndexError) as error:
            future.set_exception(error)


class LocalTransport:
    """A transport to a coordinator in this process; answers arrive at once, those to other workers are dropped."""

    def __init__(self, rules: SearchRules) -> None:
        self.coordinator = Coordinator(rules, lambda result, lines: None)
        self.sent: list[str] = []
        self.slow = False
        self._answers: deque[bytes] = deque()

    def send(self, message: Request, *lines: bytes) -> None:
        self.sent.append(type(message).__name__.lower())
        self._handle(message, *lines, now=7.5)

    def other(self, message: Request, *lines: bytes) -> None:
        """A message of another worker."""
        self._handle(message, *lines, now=0.0)

    def _handle(self, message: Request, *lines: bytes, now: float) -> None:
        decoded, attached = decoded_request(encoded(message, *lines))
        for worker, answer in self.coordinator.handle(decoded, now, attached):
            if worker == 0:
                self._answers.append(answer)

    def receive(self) -> Answer | None:
        return decoded_answer(self._answers.popleft()) if self._answers and not self.slow else None

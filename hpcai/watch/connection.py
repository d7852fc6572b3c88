"""Connections of a watcher: JSON messages in lines, from a rank, from another node's watcher, or from a stranger."""

import json
import socket
from contextlib import suppress
from typing import Any

LONGEST = 2**24  # bytes that may wait for the end of their line
LONGEST_HELLO = 4096  # of a stranger
PART = 2**16

Message = dict[str, Any]


class Connection:
    """One connection; `hello` is its first message once that had the token."""

    def __init__(self, accepted: socket.socket, token: str = "") -> None:
        """token: what the first message must have; none for a connection that this process has made."""
        accepted.setblocking(False)
        self.socket, self.hello = accepted, {} if token else {"token": ""}
        self._token, self._received = token, b""
        self.open = True

    def read(self) -> list[Message]:
        """All messages that have arrived since the last call; `open` is False once the other side has closed."""
        found: list[Message] = []
        while self.open:
            try:
                part = self.socket.recv(PART)
            except BlockingIOError:
                break
            except OSError:
                part = b""
            self.open = bool(part)
            found += self._messages(part)
        return found

    def _messages(self, part: bytes) -> list[Message]:
        *lines, self._received = (self._received + part).split(b"\n")
        found = [message for line in lines if (message := self._message(line))]
        if len(self._received) > (LONGEST if self.hello else LONGEST_HELLO):
            self.open = False
        return found

    def _message(self, line: bytes) -> Message:
        """A message of somebody who has shown the token; a stranger's connection is closed."""
        message: Any = None
        with suppress(ValueError):
            message = json.loads(line)
        if not isinstance(message, dict):
            message = {}
        if not self.hello:
            self.hello = message if message.get("token") == self._token else {}
            self.open = self.open and bool(self.hello)
        return message if self.hello else {}

    def send(self, message: Message) -> None:
        """Send a message, unless the other side has gone."""
        with suppress(OSError):
            self.socket.setblocking(True)
            self.socket.sendall(line_of(message))
        with suppress(OSError):
            self.socket.setblocking(False)

    @property
    def ended(self) -> bool:
        """Whether the other side has closed and nothing is left to read."""
        try:
            return not self.socket.recv(1, socket.MSG_PEEK)
        except OSError as error:
            return not isinstance(error, BlockingIOError)

    def close(self) -> None:
        self.open = False
        self.socket.close()


def line_of(message: Message) -> bytes:
    """A message as it is sent."""
    return json.dumps(message).encode() + b"\n"

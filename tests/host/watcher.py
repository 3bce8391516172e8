"""A client of the host that takes everything as it comes and checks the order of its own view at every step."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.errors import ConnectionClosed
    from dragoman.rpc import Transport


class Watcher:
    """One connection of a client that knows the host."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._rest = b""
        self._last_id = 0
        self.is_open = True
        self.asked: dict[int, str] = {}
        self.answers: dict[int, dict[str, Any]] = {}
        self.questions: dict[str, tuple[Any, list[dict[str, str]]]] = {}
        """Those that are open here, by their ids: the id of JSON-RPC, and the options."""
        self.events: list[tuple[int, str]] = []
        """What was received with a number: the number, and what it was."""
        transport.start(self)

    def ask(self, method: str, **params: object) -> int:
        self._last_id += 1
        self.asked[self._last_id] = method
        self._write({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        return self._last_id

    def notify(self, method: str, **params: object) -> None:
        self._write({"jsonrpc": "2.0", "method": method, "params": params})

    def choose(self, question: str, kind: str) -> None:
        """Answer an open question by the option of this kind."""
        id, options = self.questions.pop(question)
        [option] = [each["optionId"] for each in options if each["kind"] == kind]
        outcome = {"outcome": {"outcome": "selected", "optionId": option}}
        self._write({"jsonrpc": "2.0", "id": id, "result": outcome})

    def close(self) -> None:
        self.is_open = False
        self._transport.close()

    async def wait_closed(self) -> None:
        await self._transport.wait_closed()

    # Receiver

    def feed(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._on_message(json.loads(line))

    def end(self, reason: ConnectionClosed) -> None:
        self.is_open = False

    def drained(self) -> None:
        pass

    # Inside

    def _on_message(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params") or {}
        if method is None:
            id = message["id"]
            assert id in self.asked, f"an answer to nothing: {message}"
            assert id not in self.answers, f"two answers to {self.asked[id]} ({id})"
            self.answers[id] = message
        elif method == "session/request_permission":
            question = params["_meta"]["dragoman"]["questionId"]
            assert question not in self.questions, f"the question {question} was asked twice on one connection"
            self.questions[question] = (message["id"], params["options"])
        elif method == "$/cancel_request":
            gone = [question for question, (id, _) in self.questions.items() if id == params["requestId"]]
            for question in gone:  # a client must still answer
                error = {"code": -32800, "message": "Cancelled"}
                self._write({"jsonrpc": "2.0", "id": self.questions.pop(question)[0], "error": error})
        elif method == "session/update":
            number = (params.get("_meta") or {}).get("dragoman", {}).get("seq")
            assert isinstance(number, int), message
            self.events.append((number, json.dumps(params["update"], sort_keys=True)))
        elif "seq" in params:
            self.events.append((params["seq"], method))

    def _write(self, message: dict[str, Any]) -> None:
        if self.is_open:
            self._transport.write(json.dumps(message).encode() + b"\n")

"""Conversations made up for tests, frame by frame, and what the passive checker makes of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal

from dragoman.trace.entry import Direction, End, Entry, Exit, Frame, Header, Stderr
from dragoman.trace.violations import Finding, PassiveChecker

CLIENT: dict[str, Any] = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "auth": {"terminal": True},
    "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
    "elicitation": {"form": {}, "url": {}},
    "plan": {},
    "subagents": {},
}
AGENT: dict[str, Any] = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": True, "acp": True},
    "sessionCapabilities": {
        name: {} for name in ("list", "delete", "additionalDirectories", "fork", "resume", "close", "title")
    },
    "auth": {"logout": {}},
}
INFO = {"name": "test", "version": "1"}
MODES = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]}
SELECT: dict[str, Any] = {
    "type": "select",
    "id": "model",
    "name": "Model",
    "currentValue": "small",
    "options": [{"value": "small", "name": "Small"}, {"value": "large", "name": "Large"}],
}
OPTIONS = [
    {"optionId": "y", "name": "Allow", "kind": "allow_once"},
    {"optionId": "n", "name": "Reject", "kind": "reject_once"},
]
Id = int | str | None
Step = Callable[["Talk"], Any]


def text(words: str = "hi") -> dict[str, str]:
    return {"type": "text", "text": words}


class Talk:
    """One connection; each entry is a tenth of a second after the last. What says something returns the talk."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.t = 0.0
        self._next = 0

    def frame(self, direction: Direction, message: Any, eol: bytes = b"\n") -> Talk:
        data = message if isinstance(message, bytes) else json.dumps(message, ensure_ascii=False).encode()
        self.entries.append(Frame(self.tick(), direction, data, eol))
        return self

    def tick(self) -> float:
        self.t = round(self.t + 0.1, 6)
        return self.t

    def wait(self, seconds: float) -> Talk:
        self.t += seconds
        return self

    def ask(self, method: str, params: Any = None, *, by: Literal["c2a", "a2c"] = "c2a", id: Any = ...) -> Any:
        if id is ...:
            self._next += 1
            id = self._next
        self.frame(by, {"jsonrpc": "2.0", "id": id, "method": method, "params": {} if params is None else params})
        return id

    def request(self, method: str, params: Any) -> Any:
        """The agent asks."""
        return self.ask(method, params, by="a2c")

    def notify(self, method: str, params: Any, by: Literal["c2a", "a2c"] = "c2a") -> Talk:
        self.frame(by, {"jsonrpc": "2.0", "method": method, "params": params})
        return self

    def answer(self, id: Any, result: Any = None, by: Literal["c2a", "a2c"] = "a2c") -> Talk:
        self.frame(by, {"jsonrpc": "2.0", "id": id, "result": {} if result is None else result})
        return self

    def reply(self, id: Any, result: Any = None) -> Talk:
        """The client answers."""
        self.answer(id, result, by="c2a")
        return self

    def fail(
        self, id: Any, code: int, message: str = "no", data: Any = None, by: Literal["c2a", "a2c"] = "a2c"
    ) -> Talk:
        error = {"code": code, "message": message} | ({} if data is None else {"data": data})
        self.frame(by, {"jsonrpc": "2.0", "id": id, "error": error})
        return self

    def hello(self, client: Any = CLIENT, agent: Any = AGENT, **result: Any) -> Talk:
        asked = self.ask("initialize", {"protocolVersion": 1, "clientCapabilities": client, "clientInfo": INFO})
        self.answer(asked, {"protocolVersion": 1, "agentCapabilities": agent, "agentInfo": INFO, **result})
        return self

    def open(self, session: str = "s", **result: Any) -> Talk:
        self.answer(self.ask("session/new", {"cwd": "/p", "mcpServers": []}), {"sessionId": session, **result})
        return self

    def prompt(self, session: str = "s", *blocks: Any) -> Any:
        return self.ask("session/prompt", {"sessionId": session, "prompt": list(blocks) or [text()]})

    def end(self, prompt: Any, reason: str = "end_turn") -> Talk:
        self.answer(prompt, {"stopReason": reason})
        return self

    def turn(self, session: str = "s") -> Talk:
        self.end(self.prompt(session))
        return self

    def cancel(self, session: str = "s") -> Talk:
        self.notify("session/cancel", {"sessionId": session})
        return self

    def update(self, what: str, session: str = "s", /, **members: Any) -> Talk:
        self.notify("session/update", {"sessionId": session, "update": {"sessionUpdate": what, **members}}, by="a2c")
        return self

    def say(self, words: str = "hi", session: str = "s", **members: Any) -> Talk:
        self.update("agent_message_chunk", session, content=text(words), **members)
        return self

    def tool(self, id: str = "t1", session: str = "s", **members: Any) -> Talk:
        self.update("tool_call", session, toolCallId=id, title="Do", **members)
        return self

    def permission(self, id: str = "t1", session: str = "s", options: Any = OPTIONS) -> Any:
        return self.request(
            "session/request_permission", {"sessionId": session, "toolCall": {"toolCallId": id}, "options": options}
        )

    def stderr(self, line: str) -> Talk:
        self.entries.append(Stderr(self.tick(), line))
        return self

    def close(self, direction: Direction) -> Talk:
        self.entries.append(End(self.tick(), direction))
        return self

    def exit(self, code: int = 0) -> Talk:
        self.entries.append(Exit(self.tick(), code))
        return self


def started(session: str = "s", **result: Any) -> Talk:
    """A connection with everything advertised and one session."""
    talk = Talk()
    talk.hello()
    talk.open(session, **result)
    return talk


def findings(talk: Talk, header: Header | None = None) -> list[Finding]:
    """Every finding of the checker, including those at the end of the recording."""
    checker = PassiveChecker()
    found: list[Finding] = []
    if header is not None:
        found += checker.feed(header)
    for entry in talk.entries:
        found += checker.feed(entry)
    return found + checker.finish()


def brief(found: list[Finding]) -> list[tuple[int, str, str]]:
    return [(finding.rule, finding.level, finding.dir) for finding in found]

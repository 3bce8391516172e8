"""A recording in which both sides conform, and the vocabulary in which wrong recordings are made of it.

The conversation has every method and every kind of update. `recording_mutants.py` has the list of what is changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from dragoman.trace.entry import Direction, Entry, Frame, Header
from tests.trace.talk import SELECT, Talk, text

HEADER = Header(started="2026-01-01T00:00:00Z")
Body = dict[str, Any]
BOOLEAN: Body = {"type": "boolean", "id": "fast", "name": "Fast", "currentValue": False}
MODES = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]}
LOGINS = [{"id": "key", "name": "Key"}, {"id": "tty", "name": "Terminal", "type": "terminal"}]
PAGE = {"mode": "url", "message": "Log in", "sessionId": "s", "elicitationId": "e1", "url": "https://example.org/x"}
FORM = {
    "mode": "form",
    "message": "Which?",
    "sessionId": "s",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
}


def conforming() -> Talk:
    """A long conversation that breaks no rule; every wait is a second where time matters."""
    talk = Talk()
    talk.hello(authMethods=LOGINS)
    talk.answer(talk.ask("authenticate", {"methodId": "key"}))
    talk.open("s", modes=MODES, configOptions=[SELECT, BOOLEAN])
    _work(talk)
    _settings(talk)
    _services(talk)
    _cancelled(talk)
    _history(talk)
    talk.answer(talk.ask("logout"))
    talk.fail(talk.ask("_vendor/unknown"), -32601)
    talk.close("c2a").close("a2c").exit()
    return talk


def _work(talk: Talk) -> None:
    prompt = talk.prompt("s", text(), {"type": "resource_link", "uri": "file:///p/a", "name": "a"})
    talk.update("agent_thought_chunk", content=text("hm"), messageId="m0")
    talk.say("one", messageId="m1").say("two", messageId="m1")
    for block in (
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "file:///p/b", "text": "b"}},
        {"type": "resource_link", "uri": "file:///p/c", "name": "c"},
    ):
        talk.update("agent_message_chunk", content=block, messageId="m2")
    entry = {"content": "look", "priority": "high", "status": "pending"}
    talk.update("plan", entries=[entry]).update("plan", entries=[{**entry, "status": "completed"}])
    talk.tool("t1", kind="edit", status="pending", locations=[{"path": "/p/a", "line": 1}])
    talk.reply(talk.permission("t1"), {"outcome": {"outcome": "selected", "optionId": "y"}})
    talk.update("tool_call_update", toolCallId="t1", status="in_progress")
    diff = {"type": "diff", "path": "/p/a", "oldText": "a", "newText": "b"}
    talk.update("tool_call_update", toolCallId="t1", status="completed", content=[diff])
    talk.update("usage_update", used=5, size=100, cost={"amount": 0.1, "currency": "EUR"})
    talk.update("available_commands_update", availableCommands=[{"name": "test", "description": "Run the tests"}])
    talk.update("session_info_update", title="A title")
    talk.update("notice", severity="info", title="Busy")
    talk.update("compaction_update", compactionId="c1", status="in_progress")
    talk.update("compaction_summary_chunk", compactionId="c1", content=text("short"))
    talk.update("compaction_update", compactionId="c1", status="completed")
    talk.wait(2).end(prompt)


def _settings(talk: Talk) -> None:
    talk.answer(talk.ask("session/set_mode", {"sessionId": "s", "modeId": "code"}))
    value = {"sessionId": "s", "configId": "model", "value": "large"}
    options = [{**SELECT, "currentValue": "large"}, BOOLEAN]
    talk.answer(talk.ask("session/set_config_option", value), {"configOptions": options})
    prompt = talk.prompt()
    talk.update("current_mode_update", currentModeId="ask")
    talk.update("config_option_update", configOptions=options)
    talk.end(prompt)


def _services(talk: Talk) -> None:
    prompt = talk.prompt()
    read = {"sessionId": "s", "path": "/p/a", "line": 1, "limit": 5}
    talk.reply(talk.request("fs/read_text_file", read), {"content": "a\n"})
    talk.reply(talk.request("fs/write_text_file", {"sessionId": "s", "path": "/p/a", "content": "b"}))
    create = {"sessionId": "s", "command": "make", "args": ["test"], "cwd": "/p", "outputByteLimit": 1000}
    talk.reply(talk.request("terminal/create", create), {"terminalId": "x"})
    talk.tool("t2", content=[{"type": "terminal", "terminalId": "x"}])
    terminal = {"sessionId": "s", "terminalId": "x"}
    talk.reply(talk.request("terminal/output", terminal), {"output": "ok", "truncated": False})
    talk.reply(talk.request("terminal/wait_for_exit", terminal), {"exitCode": 0, "signal": None})
    talk.reply(talk.request("terminal/kill", terminal))
    talk.reply(talk.request("terminal/release", terminal))
    talk.reply(talk.request("elicitation/create", FORM), {"action": "accept", "content": {"name": "Ada"}})
    talk.reply(talk.request("elicitation/create", PAGE), {"action": "accept"})
    talk.notify("elicitation/complete", {"elicitationId": "e1"}, by="a2c")
    talk.notify("_vendor/note", {}, by="a2c")
    talk.update("tool_call_update", toolCallId="t2", status="completed")
    talk.end(prompt)


def _cancelled(talk: Talk) -> None:
    prompt = talk.prompt()
    talk.say("working")
    talk.cancel().wait(0.3).end(prompt, "cancelled")
    prompt = talk.prompt()
    talk.tool("t3")
    asked = talk.permission("t3")
    talk.cancel()
    talk.notify("$/cancel_request", {"requestId": asked}, by="a2c")
    talk.reply(asked, {"outcome": {"outcome": "cancelled"}}).end(prompt, "cancelled")
    prompt = talk.prompt()
    talk.say("working again")
    talk.notify("$/cancel_request", {"requestId": prompt}).wait(0.3)
    talk.fail(prompt, -32800, "Cancelled")


def _history(talk: Talk) -> None:
    listed = {"sessionId": "old", "cwd": "/p", "updatedAt": "2026-01-01T00:00:00Z"}
    talk.answer(talk.ask("session/list", {"cwd": "/p"}), {"sessions": [listed], "nextCursor": "n"})
    talk.answer(talk.ask("session/list", {"cursor": "n"}), {"sessions": []})
    load = talk.ask("session/load", {"sessionId": "old", "cwd": "/p", "mcpServers": []})
    talk.update("user_message_chunk", "old", content=text("before")).say("yes", "old").answer(load)
    talk.answer(talk.ask("session/resume", {"sessionId": "older", "cwd": "/p", "mcpServers": []}))
    talk.answer(talk.ask("session/delete", {"sessionId": "gone"}))
    talk.open("s2")
    prompt = talk.prompt("s2")
    talk.say("busy", "s2")
    closed = talk.ask("session/close", {"sessionId": "s2"})
    talk.wait(0.5).end(prompt, "cancelled").answer(closed)
    talk.wait(2)


# Changes


class Tape:
    """The entries of a recording, with their messages decoded, to be changed."""

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = list(entries)
        self._methods: dict[tuple[Direction, str], str] = {}

    def body(self, at: int) -> Body:
        entry = self.entries[at]
        return msgspec.json.decode(entry.data) if isinstance(entry, Frame) else {}

    def put(self, at: int, body: Body | bytes) -> None:
        entry = self.entries[at]
        assert isinstance(entry, Frame)
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        self.entries[at] = Frame(entry.t, entry.dir, data, entry.eol)

    def insert(self, at: int, direction: Direction, body: Body | bytes, after_seconds: float = 0.01) -> None:
        """Puts a message behind the entry `at`."""
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        self.entries.insert(at + 1, Frame(self.time(at) + after_seconds, direction, data, b"\n"))

    def time(self, at: int) -> float:
        entry = self.entries[at]
        return 0.0 if isinstance(entry, Header) else entry.t

    def find(self, method: str, part: str = "params", nth: int = 0) -> int:
        """The place of a message: its method (or kind of update), and params, result or error."""
        asked: dict[tuple[str, str], str] = {}
        for at, entry in enumerate(self.entries):
            if not isinstance(entry, Frame):
                continue
            body = msgspec.json.decode(entry.data)
            name = body.get("method")
            if name is not None and "id" in body:
                asked[entry.dir, repr(body["id"])] = name
            here = "params"
            if name is None:
                other = "a2c" if entry.dir == "c2a" else "c2a"
                name, here = asked.get((other, repr(body.get("id"))), ""), "error" if "error" in body else "result"
            kind = body["params"]["update"]["sessionUpdate"] if name == "session/update" else ""
            if method in (name, kind) and part == here:
                if not nth:
                    return at
                nth -= 1
        raise LookupError(f"the conversation has no {part} of {method}")


Change = Callable[[Tape], None]


def at(method: str, path: str, value: Any, part: str = "params", nth: int = 0) -> Change:
    """Sets the member at a path inside params, result or error; `...` removes it."""

    def change(tape: Tape) -> None:
        place = tape.find(method, part, nth)
        body = tape.body(place)
        *way, last = [int(step) if step.isdecimal() else step for step in path.split(".")]
        inner: Any = body[part]
        for step in way:
            inner = inner[step]
        if value is ...:
            del inner[last]
        else:
            inner[last] = value
        tape.put(place, body)

    return change


def envelope(method: str, part: str, change_body: Callable[[Body], Body | bytes], nth: int = 0) -> Change:
    """Changes a whole message."""

    def change(tape: Tape) -> None:
        place = tape.find(method, part, nth)
        tape.put(place, change_body(tape.body(place)))

    return change


def dropped(method: str, part: str = "params", nth: int = 0) -> Change:
    def change(tape: Tape) -> None:
        del tape.entries[tape.find(method, part, nth)]

    return change


def twice(method: str, part: str = "params", nth: int = 0) -> Change:
    def change(tape: Tape) -> None:
        place = tape.find(method, part, nth)
        tape.entries.insert(place + 1, tape.entries[place])

    return change


def followed(
    method: str, part: str, direction: Direction, body: Body | bytes, *, nth: int = 0, seconds: float = 0.01
) -> Change:
    """Puts another message behind one."""
    return lambda tape: tape.insert(tape.find(method, part, nth), direction, body, seconds)


def moved(method: str, part: str, behind: str, behind_part: str, nth: int = 0, behind_nth: int = 0) -> Change:
    """Moves a message behind another one."""

    def change(tape: Tape) -> None:
        entry = tape.entries.pop(tape.find(method, part, nth))
        place = tape.find(behind, behind_part, behind_nth)
        assert isinstance(entry, Frame)
        tape.entries.insert(place + 1, Frame(tape.time(place) + 0.01, entry.dir, entry.data, entry.eol))

    return change


def refused(method: str, code: int, nth: int = 0, part: str = "result") -> Change:
    """Answers with an error instead."""

    def body(old: Body) -> Body:
        return {"jsonrpc": "2.0", "id": old["id"], "error": {"code": code, "message": "no"}}

    return envelope(method, part, body, nth)


def all_of(*changes: Change) -> Change:
    def change(tape: Tape) -> None:
        for each in changes:
            each(tape)

    return change


def request(method: str, params: Any, id: Any = "new") -> Body:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def notice(method: str, params: Any) -> Body:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def updated(session: str, **update: Any) -> Body:
    return notice("session/update", {"sessionId": session, "update": update})

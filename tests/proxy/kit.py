"""A guard without processes: lines in, lines out, with real rules, files, commands and log."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dragoman.policy import Rule, parse_rule
from dragoman.process.sandbox.confinement import Confinement
from dragoman.proxy.audit.log import AuditLog
from dragoman.proxy.guard.conduct import Conduct
from dragoman.proxy.guard.events import GuardEvents
from dragoman.proxy.guard.exchange import GuardExchange
from dragoman.proxy.guard.limits import GuardLimits, read_limit
from dragoman.proxy.guard.plan import GuardPlan
from dragoman.proxy.guard.protected import SessionTripwires
from dragoman.proxy.guard.watch import SessionWatch

SECONDS = 30.0
ALL = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}


class FixedRules:
    """Rules that a test states."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.given = list(rules)
        self.remembered: list[tuple[str, str, str]] = []
        self.rule_file = "/rules.json"

    def project(self, folder: str) -> str:
        return folder

    def rules(self, session: object) -> Sequence[Rule]:
        return self.given

    def remember(self, project: str, text: str, action: str, scope: str) -> None:
        self.remembered.append((action, text, scope))


def without_words(frame: Any) -> Any:
    """A frame without what the guard writes into a permission request: what it read, and what options mean."""
    if not isinstance(frame, dict) or frame.get("method") != "session/request_permission":
        return frame
    params, written = frame["params"], ("kind", "title", "rawInput", "content")
    call = {name: value for name, value in params["toolCall"].items() if name not in written}
    options = [{name: value for name, value in option.items() if name != "name"} for option in params["options"]]
    return {**frame, "params": {**params, "toolCall": call, "options": options}}


class Guarded:
    """A guard, and both of its sides as a test plays them."""

    def __init__(self, plan: GuardPlan, folder: Path, log: AuditLog) -> None:
        self.folder = folder
        self.log = log
        self.editor: list[bytes] = []
        self.agent: list[bytes] = []
        self.sentences: list[str] = []
        self._arrived = asyncio.Event()
        self.exchange = GuardExchange(plan, self._to_editor, self._to_agent, self.sentences.append)
        self._ids = 100

    def _to_editor(self, line: bytes) -> None:
        assert line.endswith(b"\n")
        self.editor.append(line[:-1])
        self._arrived.set()

    def _to_agent(self, line: bytes) -> None:
        assert line.endswith(b"\n")
        self.agent.append(line[:-1])
        self._arrived.set()

    def from_agent(self, frame: dict[str, Any]) -> None:
        self.exchange.from_agent(json.dumps({"jsonrpc": "2.0", **frame}).encode())

    def from_editor(self, frame: dict[str, Any]) -> None:
        self.exchange.from_editor(json.dumps({"jsonrpc": "2.0", **frame}).encode())

    async def something_sent(self) -> None:
        """Wait until there is a line for either side."""
        async with asyncio.timeout(SECONDS):
            while not (self.editor or self.agent):
                self._arrived.clear()
                await self._arrived.wait()

    async def next(self, side: list[bytes]) -> Any:
        """The next line for a side."""
        async with asyncio.timeout(SECONDS):
            while not side:
                self._arrived.clear()
                await self._arrived.wait()
        return json.loads(side.pop(0))

    async def for_agent(self) -> Any:
        return await self.next(self.agent)

    async def for_editor(self) -> Any:
        return await self.next(self.editor)

    async def asked(self, method: str, **params: Any) -> Any:
        """The answer to a request of the agent that the guard answers."""
        self._ids += 1
        self.from_agent({"id": self._ids, "method": method, "params": {"sessionId": "s", **params}})
        answer = await self.for_agent()
        assert answer["id"] == self._ids
        return answer.get("result", answer.get("error"))

    async def open(self, capabilities: dict[str, Any] | None = None, session: str = "s") -> None:
        """Introduce both sides, open a session and begin a turn."""
        params: dict[str, Any] = {"protocolVersion": 1}
        if capabilities is not None:
            params["clientCapabilities"] = capabilities
        self.from_editor({"id": 1, "method": "initialize", "params": params})
        self.from_agent({"id": 1, "result": {"protocolVersion": 1, "agentCapabilities": {}}})
        self.from_editor({"id": 2, "method": "session/new", "params": {"cwd": str(self.folder), "mcpServers": []}})
        self.from_agent({"id": 2, "result": {"sessionId": session}})
        self.prompt(3, session)
        self.editor.clear()
        self.agent.clear()

    def prompt(self, request_id: int, session: str = "s") -> None:
        blocks = [{"type": "text", "text": "do it"}]
        self.from_editor(
            {"id": request_id, "method": "session/prompt", "params": {"sessionId": session, "prompt": blocks}}
        )

    def update(self, session: str = "s", **update: Any) -> None:
        self.from_agent({"method": "session/update", "params": {"sessionId": session, "update": update}})

    def records(self, kind: str) -> list[dict[str, Any]]:
        """The records of the log of one kind."""
        from dragoman.proxy.audit.verify import read_records

        assert self.log.flush(SECONDS)
        return [record.fields for record in read_records(self.folder.parent / "audit") if record.fields["kind"] == kind]


@asynccontextmanager
async def guarded(
    folder: Path,
    *,
    deny: Sequence[str] = (),
    allow: Sequence[str] = (),
    limits: Sequence[str] = (),
    asks_editor: bool = True,
    **plan: Any,
) -> AsyncIterator[Guarded]:
    """A guard around the project `folder / "project"`."""
    project = folder / "project"
    project.mkdir(exist_ok=True)
    log = AuditLog(folder / "audit", is_best_effort=not plan.get("needs_log", True))
    rules = [parse_rule(text, "deny", "flag", "--deny") for text in deny]
    rules += [parse_rule(text, "allow", "flag", "--allow") for text in allow]

    def confinement(watch: SessionWatch, tripwires: SessionTripwires) -> Confinement:
        return Confinement(
            tripwire=tripwires,
            is_expected=watch.is_expected,
            on_finished=watch.finished,
            on_changes=watch.changed_protected,
        )

    made = GuardPlan(
        agent="agent",
        found=FixedRules(rules),
        events=GuardEvents(log),
        limits=GuardLimits([read_limit(text) for text in limits], folder / "state"),
        conduct=Conduct("agent", folder / "state"),
        make_confinement=confinement,
        tripwires=SessionTripwires(folder / "protected"),
        asks_editor=asks_editor,
        **plan,
    )
    guard = Guarded(made, project, log)
    try:
        yield guard
    finally:
        await guard.exchange.close()
        log.close()


OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


def permission(call: str = "c1", **tool_call: Any) -> dict[str, Any]:
    """The params of a permission request, without its session."""
    return {"toolCall": {"toolCallId": call, **tool_call}, "options": OPTIONS}


def selected(option: str) -> dict[str, Any]:
    """The result that selects an option."""
    return {"outcome": {"outcome": "selected", "optionId": option}}

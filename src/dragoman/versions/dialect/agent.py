"""A client of version 1 and an agent of the dialect 2025.1.

Theory of operation
-------------------
The dialect names the folder and the MCP servers at initialize, before version 1 has a session. So the folder is given
to the translator, and a session in another one is refused; with `is_lazy`, initialize is held back until the first
session brings its folder and servers.

The one public agent sends the result of a prompt and the last updates from different tasks, so the result may come
first. An update `done` ends the turn's updates: a result waits for it, for a while that the caller measures. An agent
that sent no `done` in its first turn is not waited for again.

Requests for files and terminals carry no session. They belong to the session of their terminal, else to the only one
that is processing, else to the only one of those whose last update was a tool call that is not finished; if that does
not decide, they are refused, because sessions may have different rights. `services.py` translates them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from dragoman.errors import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, NOT_FOUND
from dragoman.versions.dialect import fields as dialect
from dragoman.versions.frames import Frame, Sent, Side, error, items, members, objects, text
from dragoman.versions.router import HANDLED, FrameRouter
from dragoman.versions.version2.to_v1 import STOP_REASONS

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_TURN_SECONDS: Final = 0.5
"""How long the first result waits for updates that it has overtaken, when it is not known yet whether `done` comes."""
DONE_SECONDS: Final = 10.0
"""How long a result waits for `done` of an agent that sends it; without it the turn would hang if one is lost."""

CANCEL_LOOKS: Final = 6
CANCEL_LOOK_SECONDS: Final = 5.0
"""An agent that reads nothing while it works may never see a cancel. After so many looks without a result the turn is
answered as cancelled, and what still comes of it is left out."""

_STATUSES: Final = {
    **{word: word for word in ("pending", "in_progress", "completed", "failed")},
    **dict.fromkeys(("running",), "in_progress"),
    **dict.fromkeys(("success", "ok", "done"), "completed"),
    **dict.fromkeys(("error", "cancelled"), "failed"),
}
_STEP_STATUSES: Final = {"skipped": "completed", "failed": "pending"}
_KNOWN_STATUSES: Final = ("ok", "success", "completed", "done", "cancelled")


class _Session:
    def __init__(self, session_id: str) -> None:
        self.id = session_id
        self.prompt_id: Any = None
        self.is_processing = False
        self.is_cancelled = False
        self.is_done = False
        """`done` came in this turn."""
        self.result: Frame | None = None
        """The result that waits for it."""
        self.cancel_looks = 0
        """How often it was looked in vain for the end of a turn that was cancelled."""
        self.given_up = 0
        """Turns that were answered without their results, which may still come."""
        self.running_tool: str | None = None
        self.open_role: str | None = None
        self.messages = 0
        self.tools: set[str] = set()


class V1ClientDialectAgent(FrameRouter):
    """The translator between a client of version 1 and an agent of 2025.1.

    Args:
        folder: The folder that the agent works in.
        token: What to log in with; without it no way to log in is offered.
        is_lazy: Hold initialize back until the first session.
    """

    def __init__(self, folder: str, token: str | None = None, *, is_lazy: bool = False) -> None:
        super().__init__()
        self._folder = folder
        self._token = token
        self._is_lazy = is_lazy
        self._offered: Frame = {}
        self._modes: list[str] = []
        self._sends_done: bool | None = None
        self._sessions: dict[str, _Session] = {}
        self._requests: dict[str, Callable[[Any, Frame], None]] = {
            "initialize": self._initialize,
            "authenticate": self._authenticate,
            "session/new": self._new_session,
            "session/load": self._load_session,
            "session/close": self._close_session,
            "session/prompt": self._prompt,
        }
        self._services = AgentServices(self, folder)

    @property
    def wait_seconds(self) -> float | None:
        """A result waits for the updates that it has overtaken; a turn that was cancelled does not wait forever."""
        if any(session.result is not None for session in self._sessions.values()):
            return DONE_SECONDS if self._sends_done else FIRST_TURN_SECONDS
        if any(session.is_processing and session.is_cancelled for session in self._sessions.values()):
            return CANCEL_LOOK_SECONDS
        return None

    def elapsed(self) -> list[Sent]:
        """Send the results that waited, and end turns whose agent does not see that they were cancelled."""
        waiting = [session for session in self._sessions.values() if session.result is not None]
        for session in waiting:
            self._sends_done = bool(self._sends_done)
            self._finish(session)
        for session in () if waiting else list(self._sessions.values()):
            if session.is_processing and session.is_cancelled:
                session.cancel_looks += 1
                if session.cancel_looks >= CANCEL_LOOKS:
                    self.lost.add("cancel-unseen")
                    session.given_up += 1
                    self.note_answered("client", session.prompt_id)
                    session.result = {"stopReason": "cancelled"}
                    self._finish(session)
        return self.taken()

    def on_request(self, side: Side, request_id: Any, method: str, params: Any) -> None:
        given = members(params)
        if side == "client":
            if method in self._requests:
                self._requests[method](request_id, given)
            else:
                self.lost.add("method")
                self.fail(side, request_id, error(METHOD_NOT_FOUND, f"{method} does not exist in {dialect.VERSION}"))
        elif method not in self._services.methods:
            self.fail(side, request_id, error(METHOD_NOT_FOUND, f"{method} does not exist"))
        else:
            session_id = self._session_of(given)
            if session_id is None:
                self.lost.add("unclear-session")
                why = "the request does not say which session it belongs to, and several are possible"
                self.fail(side, request_id, error(dialect.INVALID_STATE, why))
            else:
                self._services.methods[method](request_id, method, session_id, given)

    def on_notification(self, side: Side, method: str, params: Any) -> None:
        given = members(params)
        if side == "agent" and method == "session/update":
            session = self._sessions.get(text(given.get("session_id")))
            if session is not None and not session.given_up:
                self._on_update(session, text(given.get("type")), members(given.get("data")))
        elif side == "client" and method == "session/cancel":
            session = self._sessions.get(text(given.get("sessionId")))
            if session is not None:
                session.is_cancelled = session.is_processing
                self.notify("agent", "session/cancel", {"session_id": session.id})

    def on_closed(self, side: Side) -> None:
        if side == "agent":
            for session in self._sessions.values():
                if session.result is not None:
                    self._finish(session)

    def _pass(self, request_id: Any, method: str, params: Frame, on_result: Callable[[Any], Any]) -> None:
        self.pass_request("client", request_id, method, params, on_result, dialect.error_to_v1)

    # Requests of the client

    def _initialize(self, request_id: Any, params: Frame) -> None:
        self._offered = params
        if self._is_lazy:
            self.answer("client", request_id, self._ready({}))
        else:
            self._pass(request_id, "initialize", self._introduction(self._folder, []), self._ready)

    def _introduction(self, folder: str, servers: list[Frame]) -> Frame:
        offers = members(self._offered.get("clientCapabilities"))
        files = members(offers.get("fs"))
        can_read, can_write = files.get("readTextFile") is True, files.get("writeTextFile") is True
        if can_read != can_write:
            self.lost.add("one-file-method")
        client = members(self._offered.get("clientInfo"))
        return {
            "protocol_version": dialect.VERSION,
            "client_info": {
                "name": text(client.get("name"), "unknown"),
                "version": text(client.get("version"), "unknown"),
            },
            "capabilities": {
                "text_files": can_read and can_write,
                "terminal": offers.get("terminal") is True,
                "embedded_context": True,
                "audio": False,
                "image": True,
                "experimental": {},
            },
            "working_directory": folder,
            "mcp_servers": servers,
        }

    def _ready(self, result: Any) -> Frame:
        given = members(result)
        about, can = members(given.get("agent_info")), members(given.get("capabilities"))
        self._modes = [mode for mode in items(can.get("supported_modes")) if isinstance(mode, str)]
        if can.get("audio") is True:
            self.lost.add("agent-audio")
        if items(can.get("tools")):
            self.lost.add("agent-tools")
        made: Frame = {
            "protocolVersion": 1,
            "agentInfo": {"name": text(about.get("name"), "unknown"), "version": text(about.get("version"), "unknown")},
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": can.get("image") is True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": False, "sse": False},
                "sessionCapabilities": {},
            },
            "authMethods": [] if self._token is None else [{"id": "token", "name": "Token"}],
        }
        if text(given.get("instructions")):
            self.lost.add("instructions")
            made["_meta"] = {dialect.VERSION: {"instructions": given["instructions"]}}
        return made

    def _authenticate(self, request_id: Any, params: Frame) -> None:
        if params.get("methodId") != "token" or self._token is None:
            self.fail("client", request_id, error(INVALID_PARAMS, "there is no such way to log in"))
            return
        refused = error(INTERNAL_ERROR, "the agent did not accept the token")

        def logged_in(result: Any) -> Any:
            if members(result).get("success") is not False:
                return {}
            self.fail("client", request_id, refused)
            return HANDLED

        self._pass(request_id, "authenticate", {"type": "token", "token": self._token}, logged_in)

    def _in_place(self, request_id: Any, params: Frame, then: Callable[[], None]) -> None:
        """Refuse a session in another folder or with its own servers; a held initialize takes both first."""
        cwd, servers = text(params.get("cwd"), self._folder), objects(params.get("mcpServers"))
        if self._is_lazy:
            named = self._named_servers(request_id, servers)
            if named is not None:
                self._is_lazy = False
                self._folder = self._services.folder = cwd
                asked = self._introduction(cwd, named)

                def ready(result: Any) -> None:
                    self._ready(result)
                    then()

                self.ask(
                    "agent",
                    "initialize",
                    asked,
                    ready,
                    lambda reason: self.fail("client", request_id, dialect.error_to_v1(reason)),
                )
        elif cwd.rstrip("/") != self._folder.rstrip("/"):
            self.lost.add("other-folder")
            why = f"this agent works in {self._folder}: start another one for {cwd}"
            data = {"cwd": cwd, "working_directory": self._folder}
            self.fail("client", request_id, error(INVALID_PARAMS, why, data))
        elif servers:
            self.lost.add("late-servers")
            why = "MCP servers cannot be named after initialize: start the agent without them, or translate with --lazy"
            self.fail("client", request_id, error(INVALID_PARAMS, why))
        else:
            then()

    def _named_servers(self, request_id: Any, servers: list[Frame]) -> list[Frame] | None:
        made = []
        for server in servers:
            name, kind = text(server.get("name")), server.get("type")
            if kind in ("http", "sse"):
                headers = {
                    text(header.get("name")): text(header.get("value")) for header in objects(server.get("headers"))
                }
                made.append({"name": name, "url": text(server.get("url")), "credentials": headers})
            elif server.get("args"):
                self.lost.add("stdio-arguments")
                why = f"the MCP server {name!r} has arguments, which {dialect.VERSION} cannot name"
                self.fail("client", request_id, error(INVALID_PARAMS, why))
                return None
            else:
                variables = {
                    text(variable.get("name")): text(variable.get("value")) for variable in objects(server.get("env"))
                }
                url = f"stdio://{text(server.get('command'))}"
                made.append({"name": name, "url": url, "credentials": variables})
        return made

    def _new_session(self, request_id: Any, params: Frame) -> None:
        session_id = str(uuid4())

        def begin() -> None:
            wanted = members(members(params.get("_meta")).get("dragoman")).get("mode")
            mode = wanted if wanted in self._modes else self._modes[0] if self._modes else "agent"
            asked = {"session_id": session_id, "mode": mode}
            self._pass(request_id, "session/new", asked, opened)

        def opened(result: Any) -> Frame:
            self._sessions[session_id] = _Session(session_id)
            return {"sessionId": session_id}

        self._in_place(request_id, params, begin)

    def _load_session(self, request_id: Any, params: Frame) -> None:
        session_id = text(params.get("sessionId"))

        def begin() -> None:
            self._sessions[session_id] = _Session(session_id)
            self._pass(request_id, "session/load", {"session_id": session_id}, loaded)

        def loaded(result: Any) -> Any:
            if members(result).get("loaded") is not False:
                return {}
            del self._sessions[session_id]
            self.fail("client", request_id, error(NOT_FOUND, "the agent does not have this session"))
            return HANDLED

        self._in_place(request_id, params, begin)

    def _close_session(self, request_id: Any, params: Frame) -> None:
        session = self._sessions.pop(text(params.get("sessionId")), None)
        if session is not None and session.is_processing:
            self.notify("agent", "session/cancel", {"session_id": session.id})
        self.answer("client", request_id, {})

    def _prompt(self, request_id: Any, params: Frame) -> None:
        session = self._sessions.get(text(params.get("sessionId")))
        if session is None:
            self.fail("client", request_id, error(NOT_FOUND, "unknown session", {"sessionId": params.get("sessionId")}))
            return
        session.is_processing, session.prompt_id = True, request_id
        session.is_cancelled = session.is_done = False
        session.open_role, session.running_tool = None, None
        session.cancel_looks = 0

        def ended(result: Any) -> Any:
            if session.given_up:  # of the turn that was answered without it; another one may wait behind it
                session.given_up -= 1
                return HANDLED
            session.result = self._stop(session, members(result))
            if session.is_done or self._sends_done is False:
                self._finish(session)
            return HANDLED

        def failed(reason: Frame) -> Any:
            if session.given_up:
                session.given_up -= 1
                return HANDLED
            session.is_processing = False
            return dialect.error_to_v1(reason)

        content = dialect.blocks_to_dialect(params.get("prompt"), self.lost)
        asked = {"session_id": session.id, "content": content}
        self.pass_request("client", request_id, "session/prompt", asked, ended, failed)

    def _stop(self, session: _Session, result: Frame) -> Frame:
        status, reason = result.get("status"), result.get("stop_reason")
        made: Frame = {"stopReason": reason if reason in STOP_REASONS else "end_turn"}
        if session.is_cancelled or status == "cancelled":
            made["stopReason"] = "cancelled"
        if status is not None and status not in _KNOWN_STATUSES:
            self.lost.add("status-word")
            made["_meta"] = {dialect.VERSION: {"status": status}}
        return made

    def _finish(self, session: _Session) -> None:
        result, session.result = session.result, None
        session.is_processing = False
        self.answer("client", session.prompt_id, result)

    # Updates

    def _on_update(self, session: _Session, kind: str, data: Frame) -> None:
        match kind:
            case "agent_message_chunk" | "agent_thought_chunk":
                self._on_chunk(session, kind, data)
            case "tool_call":
                self._break(session)
                made = dialect.tool_to_v1(data)
                session.running_tool = made["toolCallId"]
                session.tools.add(made["toolCallId"])
                self.update(session.id, made)
            case "tool_call_update":
                self._on_tool_update(session, data)
            case "plan":
                self._break(session)
                self._on_plan(session, data)
            case "mode_change":
                self.lost.add("mode-change")
            case "done":
                self._sends_done = session.is_done = True
                if session.result is not None:
                    self._finish(session)
            case _:
                self.lost.add("unknown-update")

    def _break(self, session: _Session) -> None:
        session.open_role = None
        session.running_tool = None

    def _on_chunk(self, session: _Session, kind: str, data: Frame) -> None:
        if session.open_role != kind:
            session.open_role = kind
            session.messages += 1
        session.running_tool = None
        content = {"type": "text", "text": text(data.get("text"))}
        message_id = f"dragoman-message-{session.messages}"
        self.update(session.id, {"sessionUpdate": kind, "messageId": message_id, "content": content})

    def _on_tool_update(self, session: _Session, data: Frame) -> None:
        tool_id, word = str(data.get("id", "")), text(data.get("status"))
        made: Frame = {"sessionUpdate": "tool_call_update", "toolCallId": tool_id}
        if tool_id not in session.tools:
            session.tools.add(tool_id)
            self.update(session.id, dialect.tool_to_v1({"id": tool_id, "name": "tool"}))
        made["status"] = _STATUSES.get(word, "in_progress")
        if word and word not in _STATUSES:
            self.lost.add("tool-status-word")
            made["_meta"] = {dialect.VERSION: {"status": word}}
        if made["status"] in ("completed", "failed"):
            session.running_tool = None
        result = data.get("result")
        texts = [members(result).get("content"), data.get("error")]
        shown = list(dict.fromkeys(shown_text for shown_text in texts if isinstance(shown_text, str) and shown_text))
        if result is not None:
            made["rawOutput"] = result
        if shown:
            made["content"] = [
                {"type": "content", "content": {"type": "text", "text": shown_text}} for shown_text in shown
            ]
        self.update(session.id, made)

    def _on_plan(self, session: _Session, data: Frame) -> None:
        entries = []
        for step in objects(data.get("steps")):
            word = text(step.get("status"), "pending")
            entry: Frame = {"content": text(step.get("description")), "priority": "medium"}
            meta: Frame = {"id": step.get("id")}
            if word in ("pending", "in_progress", "completed"):
                entry["status"] = word
            else:
                self.lost.add("step-status")
                entry["status"] = _STEP_STATUSES.get(word, "pending")
                meta["status"] = word
            entries.append({**entry, "_meta": {dialect.VERSION: meta}})
        self.update(session.id, {"sessionUpdate": "plan", "entries": entries})

    def _session_of(self, params: Frame) -> str | None:
        """Return the session that a request of the agent belongs to; None if that is not clear."""
        known = self._services.session_of(params)
        if known is not None:
            return known
        processing = [session for session in self._sessions.values() if session.is_processing]
        if len(processing) > 1:
            processing = [session for session in processing if session.running_tool is not None]
        return processing[0].id if len(processing) == 1 else None


_SHELL: Final = frozenset(" \t\n|&;<>()$`\\\"'*?[]#~=%!{}")


class AgentServices:
    """The translated requests; `folder` is where a command runs that names no other."""

    def __init__(self, router: FrameRouter, folder: str) -> None:
        self._router = router
        self.folder = folder
        self._terminals: dict[str, str] = {}
        self.methods: Final[dict[str, Callable[[Any, str, str, Frame], None]]] = {
            "fs/read_text_file": self._read_file,
            "fs/write_text_file": self._write_file,
            "terminal/create": self._create_terminal,
            "terminal/output": self._terminal_output,
            "terminal/wait_for_exit": self._wait_for_exit,
            "terminal/kill": self._end_terminal,
            "terminal/release": self._end_terminal,
        }

    def session_of(self, params: Frame) -> str | None:
        """Return the session that created the terminal of a request."""
        return self._terminals.get(text(params.get("terminal_id")))

    def _serve(
        self, request_id: Any, method: str, session_id: str, params: Frame, on_result: Callable[[Any], Any]
    ) -> None:
        asked = {"sessionId": session_id, **params}
        self._router.pass_request(
            "agent",
            request_id,
            method,
            asked,
            on_result,
            lambda reason: dialect.error_to_dialect(reason, is_gate=True),
        )

    def _read_file(self, request_id: Any, method: str, session_id: str, params: Frame) -> None:
        asked = {"path": params.get("path")}
        self._serve(
            request_id, method, session_id, asked, lambda result: {"content": text(members(result).get("content"))}
        )

    def _write_file(self, request_id: Any, method: str, session_id: str, params: Frame) -> None:
        asked = {"path": params.get("path"), "content": params.get("content")}
        self._serve(request_id, method, session_id, asked, lambda result: {"success": True})

    def _create_terminal(self, request_id: Any, method: str, session_id: str, params: Frame) -> None:
        line = text(params.get("command"))
        is_word = bool(line) and not _SHELL & set(line)
        command = {"command": line, "args": []} if is_word else {"command": "sh", "args": ["-c", line]}

        def created(result: Any) -> Frame:
            terminal_id = text(members(result).get("terminalId"))
            self._terminals[terminal_id] = session_id
            return {"terminal_id": terminal_id}

        self._serve(request_id, method, session_id, {**command, "cwd": params.get("cwd") or self.folder}, created)

    def _terminal_output(self, request_id: Any, method: str, session_id: str, params: Frame) -> None:
        def read(result: Any) -> Frame:
            given = members(result)
            ended = given.get("exitStatus")
            code = members(ended).get("exitCode")
            return {"output": text(given.get("output")), "exited": isinstance(ended, dict), "exit_code": code}

        self._serve(request_id, method, session_id, {"terminalId": params.get("terminal_id")}, read)

    def _wait_for_exit(self, request_id: Any, method: str, session_id: str, params: Frame) -> None:
        """Ask for the output too: the dialect wants it with the exit code, and version 1 has it in another request."""
        asked = {"terminalId": params.get("terminal_id")}

        def ended(result: Any) -> Any:
            code = members(result).get("exitCode")
            made = {"exit_code": code if isinstance(code, int) else -1, "output": ""}

            def read(answer: Any) -> None:
                made["output"] = text(members(answer).get("output"))
                self._router.answer("agent", request_id, made)

            where = {"sessionId": session_id, **asked}
            self._router.ask(
                "client", "terminal/output", where, read, lambda _: self._router.answer("agent", request_id, made)
            )
            return HANDLED

        self._serve(request_id, method, session_id, asked, ended)

    def _end_terminal(self, request_id: Any, method: str, session_id: str, params: Frame) -> None:
        """Release a terminal after a kill, too: its id is gone in the dialect, and version 1 releases it by itself."""
        terminal_id = text(params.get("terminal_id"))

        def ended(result: Any) -> Frame:
            self._terminals.pop(terminal_id, None)
            if method == "terminal/kill":
                self._router.ask("client", "terminal/release", {"sessionId": session_id, "terminalId": terminal_id})
            return {"success": True}

        self._serve(request_id, method, session_id, {"terminalId": terminal_id}, ended)

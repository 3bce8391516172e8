"""A client of the dialect 2025.1 and an agent of version 1.

The dialect names the folder and the MCP servers once, at initialize, and lets the client choose session ids; both are
kept here. It has no permission requests: they are answered by a given function, else refused, and never allowed by
guess. Requests for files and terminals carry no session there, so the answers are found by the request alone.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import INVALID_PARAMS
from dragoman.versions import permission
from dragoman.versions.dialect import fields as dialect
from dragoman.versions.frames import Frame, Side, error, members, objects, text
from dragoman.versions.router import HANDLED, FrameRouter

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.versions.permission import Decide

_DROPPED: Final = {
    "user_message_chunk": "user-message",
    "available_commands_update": "setting",
    "config_option_update": "setting",
    "usage_update": "usage",
    "session_info_update": "session-title",
}


class _Session:
    """One session, by the id that the client chose."""

    def __init__(self, session_id: str) -> None:
        self.id = session_id
        self.is_processing = False
        self.is_cancelled = False
        self.tools: dict[str, tuple[str, str, Any]] = {}
        """What was last sent of a tool call: status, text, output."""
        self.steps: dict[str, int] = {}
        self.reported: dict[str, Frame] = {}
        """The tool calls of this turn with everything that was reported about them, for permission requests."""


class DialectClientV1Agent(FrameRouter):
    """The translator between a client of 2025.1 and an agent of version 1.

    Args:
        decide: Answers permission requests; without it they are refused.
        passes_token: Whether a token to log in with is passed on in `_meta`, because the user asked for it.
        keep_session: Called with a session id of the client and the agent's for it, so that a later connection can
            be given both by `know_sessions`.
    """

    def __init__(
        self,
        decide: Decide | None = None,
        *,
        passes_token: bool = False,
        keep_session: Callable[[str, str], None] | None = None,
    ) -> None:
        super().__init__()
        self._decide = decide
        self._keep_session = keep_session
        self._passes_token = passes_token
        self._folder = "/"
        self._servers: list[Frame] = []
        self._is_ready = False
        self._agent: Frame = {}
        self._methods: list[Frame] = []
        self._offers: Frame = {}
        self._by_v1: dict[str, _Session] = {}
        self._v1_ids: dict[str, str] = {}
        self._outputs: dict[str, str] = {}
        self._limits: dict[str, int] = {}
        self._killed: set[str] = set()
        """Terminals that are gone for the client and still valid for the agent, which has not released them."""
        self._requests: dict[str, Callable[[Any, Frame], None]] = {
            "initialize": self._initialize,
            "authenticate": self._authenticate,
            "session/new": self._new_session,
            "session/load": self._load_session,
            "session/prompt": self._prompt,
            "session/cancel": self._cancel_asked,
        }
        self._services: dict[str, Callable[[Any, Frame], None]] = {
            "session/request_permission": self._answer_permission,
            "elicitation/create": self._answer_form,
            "fs/read_text_file": self._read_file,
            "fs/write_text_file": self._write_file,
            "terminal/create": self._create_terminal,
            "terminal/output": self._terminal_output,
            "terminal/wait_for_exit": self._wait_for_exit,
            "terminal/kill": self._kill_terminal,
            "terminal/release": self._release_terminal,
        }

    @property
    def session_ids(self) -> dict[str, str]:
        """The agent's session for each of the client's ids, to be kept for a later connection."""
        return dict(self._v1_ids)

    def know_sessions(self, session_ids: dict[str, str]) -> None:
        """Take the ids that an earlier connection gave out."""
        self._v1_ids.update(session_ids)

    def on_request(self, side: Side, request_id: Any, method: str, params: Any) -> None:
        table = self._requests if side == "client" else self._services
        if method not in table:
            why = f"{method} does not exist in {dialect.VERSION}"
            self.fail(side, request_id, error(-32601, why))
        elif side == "client" and method != "initialize" and not self._is_ready:
            self.fail(side, request_id, error(dialect.INVALID_STATE, "initialize comes first"))
        else:
            table[method](request_id, members(params))

    def on_notification(self, side: Side, method: str, params: Any) -> None:
        given = members(params)
        if side == "agent" and method == "session/update":
            session = self._by_v1.get(text(given.get("sessionId")))
            if session is not None:
                self._on_update(session, members(given.get("update")))
        elif side == "client" and method == "session/cancel":
            self._cancel(given)

    def _pass(
        self, request_id: Any, method: str, params: Frame, on_result: Callable[[Any], Any], *, is_gate: bool = False
    ) -> None:
        """Pass on a request of the client; errors are translated."""
        self.pass_request(
            "client",
            request_id,
            method,
            params,
            on_result,
            lambda reason: dialect.error_to_dialect(reason, is_gate=is_gate),
        )

    # Requests of the client

    def _initialize(self, request_id: Any, params: Frame) -> None:
        if params.get("protocol_version") != dialect.VERSION:
            data = {"supported": [dialect.VERSION]}
            why = f"this is {dialect.VERSION}; another protocol_version is not supported"
            self.fail("client", request_id, error(INVALID_PARAMS, why, data))
            return
        self._folder = text(params.get("working_directory"), "/")
        self._servers = dialect.servers_to_v1(params.get("mcp_servers"), self.lost)
        offers = self._offers = members(params.get("capabilities"))
        has_files = offers.get("text_files") is True
        others = {
            name: offers[name] for name in ("embedded_context", "audio", "image", "experimental") if offers.get(name)
        }
        if others:
            self.lost.add("client-media")
        client = members(params.get("client_info"))
        asked = {
            "protocolVersion": 1,
            "clientInfo": {
                "name": text(client.get("name"), "unknown"),
                "version": text(client.get("version"), "unknown"),
            },
            "clientCapabilities": {
                "fs": {"readTextFile": has_files, "writeTextFile": has_files},
                "terminal": offers.get("terminal") is True,
                **({"_meta": {dialect.VERSION: others}} if others else {}),
            },
        }
        self._pass(request_id, "initialize", asked, self._ready)

    def _ready(self, result: Any) -> Frame:
        given = members(result)
        self._is_ready = True
        self._agent = members(given.get("agentCapabilities"))
        self._methods = objects(given.get("authMethods"))
        if self._methods:
            self.lost.add("login-methods")
        about = members(given.get("agentInfo"))
        return {
            "agent_info": {
                "name": text(about.get("name"), "unknown"),
                "version": text(about.get("version"), "unknown"),
            },
            "capabilities": {
                "streaming": True,
                "audio": False,
                "image": members(self._agent.get("promptCapabilities")).get("image") is True,
                "supported_modes": ["agent"],
                "tools": [],
            },
            "instructions": text(members(given.get("_meta")).get("instructions")),
        }

    def _authenticate(self, request_id: Any, params: Frame) -> None:
        methods = [method for method in self._methods if method.get("type", "agent") == "agent"]
        if len(methods) != 1:
            why = f"the agent has {len(methods)} ways to log in, and 2025.1 cannot choose; log in with the agent itself"
            self.fail("client", request_id, error(dialect.NOT_SUPPORTED, why))
            return
        asked: Frame = {"methodId": methods[0].get("id")}
        if isinstance(params.get("token"), str):
            if self._passes_token:
                asked["_meta"] = {dialect.VERSION: {"token": params["token"]}}
            else:
                self.lost.add("token")
        self._pass(request_id, "authenticate", asked, lambda result: {"success": True})

    def _place(self) -> Frame:
        return {"cwd": self._folder, "mcpServers": self._servers}

    def _new_session(self, request_id: Any, params: Frame) -> None:
        session_id, mode = params.get("session_id"), params.get("mode")
        if not isinstance(session_id, str) or not session_id:
            self.fail("client", request_id, error(INVALID_PARAMS, "session_id must be a non-empty string"))
            return
        if self._v1_ids.get(session_id) in self._by_v1:  # one of an earlier connection may be replaced
            self.fail("client", request_id, error(dialect.INVALID_STATE, "a session with this session_id exists"))
            return

        def opened(result: Any) -> Any:
            given = members(result)
            v1_id = text(given.get("sessionId"))
            modes = [offered.get("id") for offered in objects(members(given.get("modes")).get("availableModes"))]
            if mode in modes:
                asked = {"sessionId": v1_id, "modeId": mode}
                self.ask("agent", "session/set_mode", asked, lambda _: finish(v1_id), refused)
            elif mode not in (None, "agent"):
                why = f"the agent has no mode {mode!r}"
                self.fail("client", request_id, error(INVALID_PARAMS, why, {"supported_modes": ["agent", *modes]}))
            else:
                finish(v1_id)
            return HANDLED

        def finish(v1_id: str) -> None:
            self._v1_ids[session_id] = v1_id
            self._by_v1[v1_id] = _Session(session_id)
            if self._keep_session is not None:
                self._keep_session(session_id, v1_id)
            self.answer("client", request_id, {"session_id": session_id})

        def refused(reason: Frame) -> None:
            self.fail("client", request_id, dialect.error_to_dialect(reason))

        self._pass(request_id, "session/new", self._place(), opened)

    def _load_session(self, request_id: Any, params: Frame) -> None:
        session_id = text(params.get("session_id"))
        if self._agent.get("loadSession") is not True:
            self.lost.add("load-unknown")
            self.fail("client", request_id, error(dialect.NOT_SUPPORTED, "the agent cannot load sessions"))
            return
        v1_id = self._v1_ids.get(session_id, session_id)
        self._by_v1[v1_id] = _Session(session_id)

        def loaded(result: Any) -> Frame:
            self._v1_ids[session_id] = v1_id
            return {"session_id": session_id, "loaded": True}

        self._pass(request_id, "session/load", {"sessionId": v1_id, **self._place()}, loaded)

    def _session_of(self, params: Frame) -> tuple[str, _Session] | None:
        v1_id = self._v1_ids.get(text(params.get("session_id")), "")
        session = self._by_v1.get(v1_id)
        return None if session is None else (v1_id, session)

    def _prompt(self, request_id: Any, params: Frame) -> None:
        known = self._session_of(params)
        if known is None:
            self.fail(
                "client", request_id, error(dialect.DIALECT_NOT_FOUND, "there is no session with this session_id")
            )
            return
        v1_id, session = known
        if session.is_processing:
            self.fail(
                "client", request_id, error(dialect.INVALID_STATE, "a prompt is being processed; wait for its end")
            )
            return
        session.is_processing, session.is_cancelled = True, False
        session.reported.clear()

        def ended(result: Any) -> Any:
            session.is_processing = False
            reason = text(members(result).get("stopReason"), "end_turn")
            self._show(session, "done", None)
            is_cancelled = session.is_cancelled or reason == "cancelled"
            word = "cancelled" if is_cancelled else "ok"
            return {"status": word, "stop_reason": "cancelled" if session.is_cancelled else reason}

        def failed(reason: Frame) -> Frame:
            session.is_processing = False
            self._show(session, "done", None)
            return dialect.error_to_dialect(reason)

        asked = {"sessionId": v1_id, "prompt": dialect.blocks_to_v1(params.get("content"))}
        self.pass_request("client", request_id, "session/prompt", asked, ended, failed)

    def _cancel_asked(self, request_id: Any, params: Frame) -> None:
        self._cancel(params)
        self.answer("client", request_id, None)

    def _cancel(self, params: Frame) -> None:
        known = self._session_of(params)
        if known is not None:
            known[1].is_cancelled = known[1].is_processing
            self.notify("agent", "session/cancel", {"sessionId": known[0]})

    # Updates

    def _show(self, session: _Session, kind: str, data: Frame | None) -> None:
        params: Frame = {"session_id": session.id, "type": kind}
        self.notify("client", "session/update", params if data is None else {**params, "data": data})

    def _on_update(self, session: _Session, update: Frame) -> None:
        match update.get("sessionUpdate"):
            case "agent_message_chunk" | "agent_thought_chunk" as kind:
                block = members(update.get("content"))
                self._show(session, kind, {"text": dialect.block_text(block, self.lost)})
            case "tool_call" | "tool_call_update":
                self._on_tool(session, update)
            case "plan":
                self._on_plan(session, update)
            case "current_mode_update":
                self._show(session, "mode_change", {"mode": text(update.get("currentModeId"))})
            case kind:
                self.lost.add(_DROPPED.get(text(kind), "notice-update"))

    def _on_tool(self, session: _Session, update: Frame) -> None:
        tool_id = text(update.get("toolCallId"))
        given_now = {name: value for name, value in update.items() if value is not None}
        session.reported[tool_id] = {**session.reported.get(tool_id, {}), **given_now, "sessionUpdate": "tool_call"}
        known = session.tools.get(tool_id)
        if known is None:
            data = {"id": tool_id, "name": dialect.tool_name(update), "arguments": dialect.tool_arguments(update)}
            self._show(session, "tool_call", data)
        if update.get("title") or update.get("locations"):
            self.lost.add("tool-title")
        status, shown, output = known or ("in_progress", "", None)
        given = update.get("status")
        if isinstance(given, str):
            status = "in_progress" if given == "pending" else given
        if isinstance(update.get("content"), list):
            shown = dialect.tool_text(update["content"], self._outputs, self.lost)
        if update.get("rawOutput") is not None:
            output = update["rawOutput"]
        now = session.tools[tool_id] = (status, shown, output)
        if now == (known or ("in_progress", "", None)):
            return
        data = {"id": tool_id, "status": status, "result": {"content": shown or text(output)}}
        if isinstance(output, dict):
            data["result"] = {**output, "content": shown or text(output.get("content"))}
        self._show(session, "tool_call_update", {**data, "error": shown} if status == "failed" else data)

    def _on_plan(self, session: _Session, update: Frame) -> None:
        steps = []
        for entry in objects(update.get("entries")):
            if entry.get("priority") not in (None, "medium"):
                self.lost.add("plan-priority")
            content = text(entry.get("content"))
            number = session.steps.setdefault(content, len(session.steps) + 1)
            steps.append({"id": number, "description": content, "status": text(entry.get("status"), "pending")})
        self._show(session, "plan", {"steps": steps})

    # Requests of the agent

    def _answer_permission(self, request_id: Any, params: Frame) -> None:
        self.lost.add("permission-asked")
        session = self._by_v1.get(text(params.get("sessionId")))
        reported = [] if session is None else list(session.reported.values())
        if session is not None and session.is_cancelled:
            self.answer("agent", request_id, {"outcome": {"outcome": "cancelled"}})
        else:
            self.answer("agent", request_id, permission.answer(params, reported, self._folder, self._decide))

    def _answer_form(self, request_id: Any, params: Frame) -> None:
        self.lost.add("form")
        self.answer("agent", request_id, {"action": "cancel"})

    def _serve(self, request_id: Any, method: str, params: Frame, on_result: Callable[[Any], Any]) -> None:
        self.pass_request("agent", request_id, method, params, on_result, dialect.error_to_v1)

    def _read_file(self, request_id: Any, params: Frame) -> None:
        line, limit = params.get("line"), params.get("limit")

        def read(result: Any) -> Frame:
            content = text(members(result).get("content"))
            if isinstance(line, int) or isinstance(limit, int):
                lines = content.splitlines(keepends=True)
                start = max(0, (line if isinstance(line, int) else 1) - 1)
                end = start + limit if isinstance(limit, int) else len(lines)
                content = "".join(lines[start:end])
            return {"content": content}

        self._serve(request_id, "fs/read_text_file", {"path": params.get("path")}, read)

    def _write_file(self, request_id: Any, params: Frame) -> None:
        asked = {"path": params.get("path"), "content": params.get("content")}
        self._serve(request_id, "fs/write_text_file", asked, lambda result: {})

    def _create_terminal(self, request_id: Any, params: Frame) -> None:
        words = [text(params.get("command")), *map(str, params.get("args") or ())]
        variables = [
            f"{text(variable.get('name'))}={shlex.quote(text(variable.get('value')))}"
            for variable in objects(params.get("env"))
        ]
        limit = params.get("outputByteLimit")

        def created(result: Any) -> Frame:
            given = members(result)
            terminal_id = text(given.get("terminal_id", given.get("terminalId")))
            if isinstance(limit, int):
                self._limits[terminal_id] = limit
            return {"terminalId": terminal_id}

        asked = {"cwd": params.get("cwd") or self._folder, "command": " ".join([*variables, shlex.join(words)])}
        self._serve(request_id, "terminal/create", asked, created)

    def _terminal_output(self, request_id: Any, params: Frame) -> None:
        terminal_id = text(params.get("terminalId"))
        if terminal_id in self._killed:
            known = {"output": self._outputs.get(terminal_id, ""), "truncated": False, "exitStatus": {}}
            self.answer("agent", request_id, known)
            return

        def read(result: Any) -> Frame:
            given = members(result)
            output = text(given.get("output"))
            self._outputs[terminal_id] = output
            data, limit = output.encode("utf-8", "replace"), self._limits.get(terminal_id)
            is_cut = limit is not None and len(data) > limit
            if is_cut:
                output = data[len(data) - (limit or 0) :].decode("utf-8", "ignore")
            made: Frame = {"output": output, "truncated": is_cut}
            if given.get("exited") is True:
                made["exitStatus"] = self._exit(given)
            return made

        self._serve(request_id, "terminal/output", {"terminal_id": terminal_id}, read)

    def _wait_for_exit(self, request_id: Any, params: Frame) -> None:
        terminal_id = text(params.get("terminalId"))

        if terminal_id in self._killed:
            self.answer("agent", request_id, {})
            return

        def ended(result: Any) -> Frame:
            self._outputs[terminal_id] = text(members(result).get("output"))
            return self._exit(members(result))

        self._serve(request_id, "terminal/wait_for_exit", {"terminal_id": terminal_id}, ended)

    def _kill_terminal(self, request_id: Any, params: Frame) -> None:
        terminal_id = text(params.get("terminalId"))

        def killed(result: Any) -> Frame:
            self._killed.add(terminal_id)
            return {}

        self._serve(request_id, "terminal/kill", {"terminal_id": terminal_id}, killed)

    def _release_terminal(self, request_id: Any, params: Frame) -> None:
        terminal_id = text(params.get("terminalId"))
        self._limits.pop(terminal_id, None)
        if terminal_id in self._killed:
            self._killed.discard(terminal_id)
            self.answer("agent", request_id, {})
        else:
            self._serve(request_id, "terminal/release", {"terminal_id": terminal_id}, lambda result: {})

    def _exit(self, status: Frame) -> Frame:
        code = status.get("exit_code", status.get("exitCode"))
        if isinstance(code, int) and not isinstance(code, bool) and code >= 0:
            return {"exitCode": code}
        self.lost.add("exit-signal")
        return {}

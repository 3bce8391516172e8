"""A client of version 1 and an agent of version 2: requests, permission, and where updates go.

Read `v1_session.py` for the updates and for when a prompt ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.errors import INTERNAL_ERROR, INVALID_PARAMS, REQUEST_CANCELLED
from dragoman.versions.frames import OTHER, Frame, Side, error, items, kept, members, objects, text, without
from dragoman.versions.router import HANDLED, FrameRouter
from dragoman.versions.version2 import to_v1, to_v2
from dragoman.versions.version2.v1_session import ClientGates, OpenPrompt, V1Session

if TYPE_CHECKING:
    from collections.abc import Callable

_CANCELLED = {"outcome": {"outcome": "cancelled"}}


class V1ClientV2Agent(FrameRouter):
    """The translator between a client of version 1 and an agent of version 2."""

    def __init__(self) -> None:
        super().__init__()
        self._gates = ClientGates()
        self._starts_servers = True
        self._sessions: dict[str, V1Session] = {}
        self._made_permissions = 0
        self._requests: dict[str, Callable[[Any, Frame], None]] = {
            "initialize": self._initialize,
            "authenticate": self._renamed("auth/login"),
            "logout": self._renamed("auth/logout"),
            "session/new": self._open_session,
            "session/fork": self._open_session,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/close": self._close,
            "session/set_mode": self._set_mode,
            "session/set_config_option": self._set_option,
            "session/prompt": self._prompt,
        }

    def on_request(self, side: Side, request_id: Any, method: str, params: Any) -> None:
        if side == "client" and method in self._requests and isinstance(params, dict):
            self._requests[method](request_id, params)
        elif side == "agent" and method == "session/request_permission" and isinstance(params, dict):
            self._ask_permission(request_id, params)
        else:
            self.pass_request(side, request_id, method, params)

    def on_notification(self, side: Side, method: str, params: Any) -> None:
        given = members(params)
        if side == "agent" and method == "session/update":
            self._session(given.get("sessionId")).on_update(members(given.get("update")))
            return
        if side == "client" and method == "session/cancel":
            self._session(given.get("sessionId")).is_cancelling = True
        elif side == "client" and method == "$/cancel_request" and self._cancel_accepted(given.get("requestId")):
            return
        self.notify(OTHER[side], method, params)

    def _cancel_accepted(self, request_id: Any) -> bool:
        """Cancel the turn of an accepted prompt: for the agent, the request is over."""
        for session_id, session in self._sessions.items():
            if session.has_accepted(request_id):
                session.is_cancelling = True
                self.notify("agent", "session/cancel", {"sessionId": session_id})
                return True
        return False

    def _session(self, session_id: Any) -> V1Session:
        key = text(session_id)
        if key not in self._sessions:

            def end(prompt: OpenPrompt, result: Frame | None, reason: Frame | None) -> None:
                if reason is not None:
                    self.fail("client", prompt.id, reason)
                else:
                    self.answer("client", prompt.id, result)

            self._sessions[key] = V1Session(lambda update: self.update(key, update), end, self.lost, self._gates)
        return self._sessions[key]

    # Requests of the client

    def _renamed(self, method: str) -> Callable[[Any, Frame], None]:
        return lambda request_id, params: self.pass_request("client", request_id, method, params)

    def _initialize(self, request_id: Any, params: Frame) -> None:
        version = params.get("protocolVersion")
        if not isinstance(version, int) or isinstance(version, bool) or not 0 <= version <= 65535:
            self.fail("client", request_id, error(INVALID_PARAMS, "protocolVersion must be an integer"))
            return
        self._gates = ClientGates(params.get("clientCapabilities"))
        self._sessions.clear()
        offered = {
            "protocolVersion": 2,
            "info": to_v2.program(params.get("clientInfo")),
            "capabilities": to_v2.client_capabilities(params.get("clientCapabilities"), self.lost),
            **kept(params, "_meta"),
        }
        self.pass_request("client", request_id, "initialize", offered, lambda result: self._ready(request_id, result))

    def _ready(self, request_id: Any, result: Any) -> Any:
        given = members(result)
        session = members(given.get("capabilities")).get("session")
        if given.get("protocolVersion") != 2:
            answered = given.get("protocolVersion")
            why = f"the agent answered with version {answered} of the protocol, not 2; translate with --agent 1"
            self.fail("client", request_id, error(INTERNAL_ERROR, why, {"protocolVersion": answered}))
            return HANDLED
        if not isinstance(session, dict):
            why = "the agent announces no sessions: there is nothing to translate"
            self.fail("client", request_id, error(INTERNAL_ERROR, why))
            return HANDLED
        self._starts_servers = isinstance(members(session.get("mcp")).get("stdio"), dict)
        methods = to_v1.auth_methods(given.get("authMethods"), self.lost)
        return {
            "protocolVersion": 1,
            "agentInfo": to_v2.program(given.get("info")),
            "agentCapabilities": to_v1.agent_capabilities(given.get("capabilities"), can_log_out=bool(methods)),
            "authMethods": methods,
            **kept(given, "_meta"),
        }

    def _with_servers(self, request_id: Any, params: Frame) -> Frame | None:
        """Return the params with servers of version 2, or None if the request was refused."""
        params = to_v2.system_prompt(params)
        if "mcpServers" not in params:
            return params
        servers, is_short = to_v2.servers(params["mcpServers"], self.lost)
        if is_short and not servers:
            self.fail("client", request_id, error(INVALID_PARAMS, "MCP servers of type sse cannot be used"))
            return None
        if not self._starts_servers and any(members(server).get("type") == "stdio" for server in servers):
            self.lost.add("no-stdio-servers")
            self.fail("client", request_id, error(INVALID_PARAMS, "the agent does not start MCP servers"))
            return None
        return {**params, "mcpServers": servers}

    def _open_session(self, request_id: Any, params: Frame) -> None:
        method = "session/fork" if "sessionId" in params else "session/new"
        made = self._with_servers(request_id, params)
        if made is not None:
            self.pass_request("client", request_id, method, made, lambda result: self._opened(request_id, result))

    def _opened(self, request_id: Any, result: Any, session_id: Any = None) -> Any:
        given = members(result)
        session = self._session(given.get("sessionId", session_id))
        made = without(given, "availableCommands")
        if "configOptions" in given:
            made["configOptions"] = session.set_options(given["configOptions"])
            modes = to_v1.mode_state(made["configOptions"])
            if modes is not None:
                made["modes"] = modes
        self.answer("client", request_id, made)
        session.send_commands(given.get("availableCommands"))
        return HANDLED

    def _load(self, request_id: Any, params: Frame) -> None:
        made = self._with_servers(request_id, params)
        if made is not None:
            self._session(params.get("sessionId")).forget()
            made = {**made, "replayFrom": {"type": "start"}}
            self._reopen(request_id, made)

    def _resume(self, request_id: Any, params: Frame) -> None:
        made = self._with_servers(request_id, params)
        if made is not None:
            self._reopen(request_id, made)

    def _reopen(self, request_id: Any, params: Frame) -> None:
        session_id = params.get("sessionId")
        self.pass_request(
            "client", request_id, "session/resume", params, lambda result: self._opened(request_id, result, session_id)
        )

    def _close(self, request_id: Any, params: Frame) -> None:
        def closed(result: Any) -> Any:
            self._sessions.pop(text(params.get("sessionId")), None)
            return result

        self.pass_request("client", request_id, "session/close", params, closed)

    def _set_mode(self, request_id: Any, params: Frame) -> None:
        session = self._session(params.get("sessionId"))
        option = next((candidate for candidate in session.options if candidate.get("category") == "mode"), None)
        if option is None:
            self.fail("client", request_id, error(INVALID_PARAMS, "the agent has no modes"))
            return

        def changed(result: Any) -> Any:
            options = session.set_options(members(result).get("configOptions"))
            self.answer("client", request_id, {})
            update = {"sessionUpdate": "config_option_update", "configOptions": options}
            self.update(params.get("sessionId"), update)
            return HANDLED

        asked = {"sessionId": params.get("sessionId"), "configId": option["id"], "type": "id"}
        asked["value"] = params.get("modeId")
        self.pass_request("client", request_id, "session/set_config_option", asked, changed)

    def _set_option(self, request_id: Any, params: Frame) -> None:
        session = self._session(params.get("sessionId"))
        made = params if params.get("type") == "boolean" else {**params, "type": "id"}
        self.pass_request(
            "client",
            request_id,
            "session/set_config_option",
            made,
            lambda result: {
                **members(result),
                "configOptions": session.set_options(members(result).get("configOptions")),
            },
        )

    def _prompt(self, request_id: Any, params: Frame) -> None:
        if not items(params.get("prompt")):
            self.lost.add("empty-prompt")
            self.fail("client", request_id, error(INVALID_PARAMS, "a prompt needs at least one content block"))
            return
        session = self._session(params.get("sessionId"))
        prompt = OpenPrompt(request_id, params["prompt"])

        def accepted(result: Any) -> Any:
            session.accept_prompt(prompt, members(result).get("messageId"))
            return HANDLED

        def refused(reason: Frame) -> Any:
            session.drop_prompt(prompt)
            if reason.get("code") != REQUEST_CANCELLED or not session.is_cancelling:
                return reason
            self.answer("client", request_id, {"stopReason": "cancelled"})
            return HANDLED

        session.begin_prompt(prompt)
        asked = {**params, "prompt": to_v2.blocks(params["prompt"])}
        self.pass_request("client", request_id, "session/prompt", asked, accepted, refused)

    def on_closed(self, side: Side) -> None:
        if side != "agent":
            return
        lost = error(INTERNAL_ERROR, "the connection to the agent was lost")
        for session in self._sessions.values():
            for prompt in session.take_accepted():
                self.fail("client", prompt.id, lost)

    # Requests of the agent

    def _ask_permission(self, request_id: Any, params: Frame) -> None:
        options = to_v1.permission_options(params.get("options"), self.lost)
        if not options:
            self.answer("agent", request_id, _CANCELLED)
            return
        offered = {option.get("optionId") for option in options if isinstance(option.get("optionId"), str)}
        asked = {
            "sessionId": params.get("sessionId"),
            "toolCall": self._subject(params),
            "options": options,
            **kept(params, "_meta"),
        }

        def answered(result: Any) -> Any:
            outcome = members(members(result).get("outcome"))
            if outcome.get("outcome") == "selected" and outcome.get("optionId") in offered:
                return result
            if outcome.get("outcome") != "cancelled":
                self.lost.add("permission-outcome")
            return _CANCELLED

        self.pass_request("agent", request_id, "session/request_permission", asked, answered)

    def _subject(self, params: Frame) -> Frame:
        """Return the tool call of a permission request; version 1 has no other subject."""
        subject, title = members(params.get("subject")), text(params.get("title"), "Permission required")
        tools = self._session(params.get("sessionId")).tools
        if subject.get("type") == "tool_call":
            call = tools.patch(members(subject.get("toolCall")))
            shown = call.get("title", tools.title_of(call.get("toolCallId")))
            if shown != title:
                self.lost.add("permission-title")
        elif subject.get("type") == "command":
            self.lost.add("permission-subject")
            call = {"kind": "execute", "rawInput": kept(subject, "command", "cwd"), **kept(subject, "toolCallId")}
        else:
            self.lost.add("permission-subject")
            call = {}
        if not isinstance(call.get("toolCallId"), str):
            self._made_permissions += 1
            call["toolCallId"] = f"perm-{self._made_permissions}"
        call["title"] = title
        if isinstance(params.get("description"), str):
            self.lost.add("permission-description")
            described = {"type": "content", "content": {"type": "text", "text": params["description"]}}
            call["content"] = [described, *objects(call.get("content"))]
        return call

"""A client of version 2 and an agent of version 1: requests, held prompts, permission, and where updates go.

Read `v2_session.py` for the updates and for the life of a turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NOT_FOUND,
    REQUEST_CANCELLED,
    UNSUPPORTED_VERSION,
)
from dragoman.versions.frames import OTHER, Frame, Side, error, kept, members, objects, text, without
from dragoman.versions.router import HANDLED, FrameRouter
from dragoman.versions.version2 import to_v1, to_v2
from dragoman.versions.version2.v2_session import HeldPrompt, V2Session

if TYPE_CHECKING:
    from collections.abc import Callable

_CANCELLED: Final = {"outcome": {"outcome": "cancelled"}}
_WITHDRAWN: Final = error(REQUEST_CANCELLED, "the prompt was withdrawn before its turn began")
_V1_ONLY: Final = frozenset(("authenticate", "logout", "session/load", "session/set_mode"))
HELD_PROMPTS: Final = 256
"""So many prompts of a session wait for the one that runs; further ones are refused."""


class V2ClientV1Agent(FrameRouter):
    """The translator between a client of version 2 and an agent of version 1.

    Args:
        mark: How the ids of messages begin that the agent gave none. A client that comes back on another connection
            keeps the messages it had, so the mark should differ for each connection.
        keeps_turns: A turn goes on when its session is closed and the agent cannot close sessions.
    """

    def __init__(self, mark: str = "dragoman", *, keeps_turns: bool = False) -> None:
        super().__init__()
        self._keeps_turns = keeps_turns
        self._mark = mark
        self._made_ids = 0
        self._is_ready = False
        self._is_used = False
        self._update_meta: Frame | None = None
        """The `_meta` of the notification whose update is being translated."""
        self._agent: Frame = {}
        self._can: Frame = {}
        self._sessions: dict[str, V2Session] = {}
        self._opened: dict[str, None] = {}
        self._requests: dict[str, Callable[[Any, Frame], None]] = {
            "initialize": self._initialize,
            "auth/login": lambda request_id, params: self.pass_request("client", request_id, "authenticate", params),
            "auth/logout": self._log_out,
            "session/new": self._open_session,
            "session/fork": self._open_session,
            "session/resume": self._resume,
            "session/list": self._list,
            "session/close": self._close,
            "session/set_config_option": self._set_option,
            "session/prompt": self._prompt,
            "tool_call/cancel": self._refuse_cancel("tool-cancel", "tool call"),
            "terminal/cancel": self._refuse_cancel("terminal-cancel", "terminal"),
        }

    def on_request(self, side: Side, request_id: Any, method: str, params: Any) -> None:
        if side == "client":
            self._is_used = self._is_used or (self._is_ready and method != "initialize")
            if method in _V1_ONLY:
                self.fail("client", request_id, error(METHOD_NOT_FOUND, f"version 2 has no method {method}"))
            elif method in self._requests and isinstance(params, dict):
                self._requests[method](request_id, params)
            else:
                self.pass_request(side, request_id, method, params)
        elif method in ("session/request_permission", "elicitation/create") and isinstance(params, dict):
            self._ask(request_id, method, params)
        elif method.startswith(("fs/", "terminal/")):
            self.lost.add("file-request" if method.startswith("fs/") else "terminal-request")
            why = f"{method} was not offered: a client of version 2 has no files or terminals for the agent"
            self.fail("agent", request_id, error(METHOD_NOT_FOUND, why))
        else:
            self.pass_request(side, request_id, method, params)

    def on_notification(self, side: Side, method: str, params: Any) -> None:
        given = members(params)
        if side == "agent" and method == "session/update":
            self._update_meta = self.shown_meta(given.get("_meta"))
            self._session(given.get("sessionId")).on_update(members(given.get("update")))
            self._update_meta = None
            return
        if side == "client" and method == "session/cancel":
            self._withdraw(self._session(given.get("sessionId")), lambda held: True)
        elif side == "client" and method == "$/cancel_request" and not self.is_open("client", given.get("requestId")):
            for session in self._sessions.values():
                self._withdraw(session, lambda held: bool(held.id == given.get("requestId")))
            return
        self.notify(OTHER[side], method, params)

    def _session(self, session_id: Any) -> V2Session:
        key = text(session_id)
        if key not in self._sessions:
            self._sessions[key] = self._new_session(key)
        return self._sessions[key]

    def _new_session(self, session_id: str) -> V2Session:
        return V2Session(lambda update: self._send_update(session_id, update), self.lost, self.make_id)

    def _send_update(self, session_id: str, update: Frame) -> None:
        meta = {} if self._update_meta is None else {"_meta": self._update_meta}
        self.notify("client", "session/update", {"sessionId": session_id, "update": update, **meta})

    def shown_meta(self, meta: Any) -> Frame | None:
        """Return the `_meta` of the agent's notification or result as the client is sent it; None for none."""
        return meta if isinstance(meta, dict) else None

    def make_id(self, what: str) -> str:
        """Make an id for a message that has none."""
        self._made_ids += 1
        return f"{self._mark}-{what}-{self._made_ids}"

    # Requests of the client

    def _initialize(self, request_id: Any, params: Frame) -> None:
        version = params.get("protocolVersion")
        if not isinstance(version, int) or isinstance(version, bool) or not 0 <= version <= 65535:
            self.fail("client", request_id, error(INVALID_PARAMS, "protocolVersion must be an integer"))
            return
        if self._is_used or (self._is_ready and version < 2):
            why = "this connection is in use" if self._is_used else "this connection speaks version 2"
            self.fail("client", request_id, error(INVALID_REQUEST, f"{why}: initialize cannot change that"))
            return
        if version < 2:
            data = {"requested": version, "supported": [2]}
            self.fail("client", request_id, error(UNSUPPORTED_VERSION, "unsupported protocol version", data))
            return
        if not isinstance(params.get("info"), dict):
            self.fail("client", request_id, error(INVALID_PARAMS, "version 2 requires the member `info`"))
            return
        offered = {
            "protocolVersion": 1,
            "clientInfo": to_v2.program(params.get("info")),
            "clientCapabilities": self.client_capabilities(params.get("capabilities")),
            **kept(params, "_meta"),
        }
        self.pass_request("client", request_id, "initialize", offered, lambda result: self._ready(request_id, result))

    def client_capabilities(self, capabilities: Any) -> Frame:
        """Return what is announced to the agent."""
        return to_v1.client_capabilities(capabilities)

    def _ready(self, request_id: Any, result: Any) -> Any:
        given = members(result)
        if given.get("protocolVersion") != 1:
            answered = given.get("protocolVersion")
            why = f"the agent answered with version {answered} of the protocol, not 1"
            self.fail("client", request_id, error(INTERNAL_ERROR, why, {"protocolVersion": answered}))
            return HANDLED
        self._agent = members(given.get("agentCapabilities"))
        self._can = members(self._agent.get("sessionCapabilities"))
        self._sessions.clear()
        self._is_ready = True
        return {
            "protocolVersion": 2,
            "info": to_v2.program(given.get("agentInfo")),
            "capabilities": to_v2.agent_capabilities(given.get("agentCapabilities")),
            "authMethods": to_v2.auth_methods(given.get("authMethods")),
            **kept(given, "_meta"),
        }

    def _log_out(self, request_id: Any, params: Frame) -> None:
        if isinstance(members(self._agent.get("auth")).get("logout"), dict):
            self.pass_request("client", request_id, "logout", params)
        else:
            self.lost.add("no-logout")
            self.fail("client", request_id, error(INTERNAL_ERROR, "the agent cannot log out"))

    def _with_servers(self, params: Frame) -> Frame:
        given = to_v1.system_prompt(params, self.lost)
        return {**given, "mcpServers": to_v1.servers(params.get("mcpServers"), self.lost)}

    def _open_session(self, request_id: Any, params: Frame) -> None:
        method = "session/fork" if "sessionId" in params else "session/new"
        self.pass_request(
            "client", request_id, method, self._with_servers(params), lambda result: self._taken_over(result, params)
        )

    def _taken_over(self, result: Any, params: Frame) -> Frame:
        given = members(result)
        session_id = text(given.get("sessionId", params.get("sessionId")))
        session = self._session(session_id)
        session.cwd = text(params.get("cwd"))
        self._opened[session_id] = None
        made = without(given, "modes", "configOptions", "_meta")
        meta = self.shown_meta(given.get("_meta"))
        if meta is not None:
            made["_meta"] = meta
        options = session.settings(given)
        return made if options is None else {**made, "configOptions": options}

    def _resume(self, request_id: Any, params: Frame) -> None:
        replay = params.get("replayFrom")
        can_load = self._agent.get("loadSession") is True
        can_resume = isinstance(self._can.get("resume"), dict)
        if replay is not None and (not can_load or members(replay).get("type") != "start"):
            self.lost.add("replay-cursor")
            why = "the agent cannot load sessions" if not can_load else "a replay can begin at the start only"
            self.fail("client", request_id, error(INVALID_PARAMS, why, {"reason": why}))
            return
        if replay is None and not can_resume and not can_load:
            why = "the agent can neither resume nor load sessions"
            self.fail("client", request_id, error(NOT_FOUND, why, kept(params, "sessionId")))
            return
        session = self._sessions[text(params.get("sessionId"))] = self._fresh(params)
        method = "session/resume" if replay is None and can_resume else "session/load"
        if replay is None and not can_resume:
            self.lost.add("replay-not-shown")
            session.is_swallowing = True

        def opened(result: Any) -> Any:
            session.is_swallowing = False
            made = self._taken_over(result, params)
            self.on_opened(text(params.get("sessionId")), session, members(result))
            session.send_state()
            return without(made, "sessionId")

        def failed(reason: Frame) -> Frame:
            session.is_swallowing = False
            return reason

        asked = without(self._with_servers(params), "replayFrom")
        self.pass_request("client", request_id, method, asked, opened, failed)

    def on_opened(self, session_id: str, session: V2Session, result: Frame) -> None:
        """Take note that a session was opened again; `result` is the agent's answer."""

    def _fresh(self, params: Frame) -> V2Session:
        """Open a session again; a turn that runs in it goes on."""
        key = text(params.get("sessionId"))
        before = self._sessions.get(key)
        made = self._new_session(key)
        if before is not None:
            made.is_running, made.held, made.questions = before.is_running, before.held, before.questions
        return made

    def _list(self, request_id: Any, params: Frame) -> None:
        if isinstance(self._can.get("list"), dict):
            self.pass_request("client", request_id, "session/list", params)
            return
        self.lost.add("no-list")
        sessions = []
        for session_id in self._opened:
            session = self._sessions.get(session_id)
            if session is not None and params.get("cwd") in (None, session.cwd):
                title = {} if session.title is None else {"title": session.title}
                sessions.append({"sessionId": session_id, "cwd": session.cwd, **title})
        self.answer("client", request_id, {"sessions": sessions})

    def _close(self, request_id: Any, params: Frame) -> None:
        session_id = text(params.get("sessionId"))
        if isinstance(self._can.get("close"), dict):
            self.pass_request("client", request_id, "session/close", params, lambda result: self._closed(session_id))
            return
        self.lost.add("no-close")
        session = self._sessions.get(session_id)
        if session is not None:
            self._withdraw(session, lambda held: True)
            if session.is_running and not self._keeps_turns:
                self.notify("agent", "session/cancel", {"sessionId": session_id})
        self.answer("client", request_id, self._closed(session_id))

    def _closed(self, session_id: str) -> Frame:
        self._sessions.pop(session_id, None)
        self._opened.pop(session_id, None)
        return {}

    def _set_option(self, request_id: Any, params: Frame) -> None:
        session = self._session(params.get("sessionId"))
        if params.get("configId") == to_v2.MODE_OPTION and session.has_made_mode_option:
            mode_id = params.get("value")

            def changed(result: Any) -> Any:
                session.set_mode(mode_id)
                return {"configOptions": session.options()}

            asked = {"sessionId": params.get("sessionId"), "modeId": mode_id}
            self.pass_request("client", request_id, "session/set_mode", asked, changed)
            return
        if params.get("type") not in ("id", "boolean"):
            self.fail("client", request_id, error(INVALID_PARAMS, "the type of the value must be id or boolean"))
            return

        def taken(result: Any) -> Any:
            session.settings(members(result))
            return {**members(result), "configOptions": session.options()}

        made = params if params["type"] == "boolean" else without(params, "type")
        self.pass_request("client", request_id, "session/set_config_option", made, taken)

    def _refuse_cancel(self, kind: str, what: str) -> Callable[[Any, Frame], None]:
        def refuse(request_id: Any, params: Frame) -> None:
            self.lost.add(kind)
            self.fail("client", request_id, error(INVALID_PARAMS, f"the {what} is unknown or not cancellable"))

        return refuse

    # Prompts

    def _prompt(self, request_id: Any, params: Frame) -> None:
        """Accept a prompt, or hold it while another one runs."""
        found = self._read_prompt(request_id, params)
        if found is None:
            return
        session_id, session, held = found
        if len(session.held) >= HELD_PROMPTS:
            why = f"{HELD_PROMPTS} prompts of this session wait already"
            self.fail("client", request_id, error(INTERNAL_ERROR, why, {"reason": "queue_full"}))
            return
        session.held.append(held)
        self._begin_next(session_id, session)

    def _read_prompt(self, request_id: Any, params: Frame) -> tuple[str, V2Session, HeldPrompt] | None:
        """Return the prompt and its session; None if it was refused."""
        blocks = to_v1.blocks(params.get("prompt"), self.lost)
        if not blocks:
            self.fail("client", request_id, error(INVALID_PARAMS, "a prompt needs content that version 1 has"))
            return None
        session_id = text(params.get("sessionId"))
        if session_id not in self._sessions:
            self.fail("client", request_id, error(NOT_FOUND, "unknown session", {"sessionId": session_id}))
            return None
        return session_id, self._sessions[session_id], HeldPrompt(request_id, params, {**params, "prompt": blocks})

    def _begin_next(self, session_id: str, session: V2Session) -> None:
        if session.is_running or not session.held:
            return
        held = session.held.pop(0)
        message_id = self.make_id("prompt")
        self.answer("client", held.id, {"messageId": message_id})
        session.insert_prompt(message_id, held.params.get("prompt"))

        def ended(idle: Frame) -> None:
            # A session that was opened again in between is the one that goes on.
            current = self._sessions.get(session_id)
            if current is not None:
                current.end_turn(idle)
                self._begin_next(session_id, current)

        def failed(reason: Frame) -> None:
            self.lost.add("late-refusal")
            ended(failure(reason))

        self.ask("agent", "session/prompt", held.translated, lambda result: ended(stop(result)), failed)

    def _withdraw(self, session: V2Session, is_meant: Callable[[HeldPrompt], bool]) -> None:
        for held in [prompt for prompt in session.held if is_meant(prompt)]:
            session.held.remove(held)
            self.fail("client", held.id, _WITHDRAWN)

    def on_closed(self, side: Side) -> None:
        if side != "agent":
            return
        lost = error(INTERNAL_ERROR, "the connection to the agent was lost")
        for session in self._sessions.values():
            for held in session.held:
                self.fail("client", held.id, lost)
            session.held.clear()
            if session.is_running:
                session.end_turn({"stopReason": "error", "error": lost})

    # Requests of the agent

    def _ask(self, request_id: Any, method: str, params: Frame) -> None:
        session_id = text(params.get("sessionId"))
        session = self._session(session_id)
        asked = to_v2.form(params)
        if method == "session/request_permission":
            if not objects(params.get("options")):
                self.lost.add("empty-options")
                self.answer("agent", request_id, _CANCELLED)
                return
            asked = self._permission(params, session)
        session.open_question(request_id)

        def close() -> None:
            current = self._sessions.get(session_id)  # it may have been opened again meanwhile
            if current is not None:
                current.close_question(request_id)

        def answered(result: Any) -> Any:
            close()
            if method != "session/request_permission":
                return to_v1.form_answer(result, self.lost)
            outcome = members(members(result).get("outcome"))
            offered = [option.get("optionId") for option in objects(params.get("options"))]
            if outcome.get("outcome") == "selected" and outcome.get("optionId") in offered:
                return result
            if outcome.get("outcome") != "cancelled":
                self.lost.add("permission-outcome")
            return _CANCELLED

        def failed(reason: Frame) -> Frame:
            close()
            return reason

        self.pass_request("agent", request_id, method, asked, answered, failed)

    def _permission(self, params: Frame, session: V2Session) -> Frame:
        call = session.tool_patch(members(params.get("toolCall")))
        title = call.get("title") or session.title_of(call.get("toolCallId")) or "Permission required"
        return {
            "sessionId": params.get("sessionId"),
            "title": title,
            "subject": {"type": "tool_call", "toolCall": call},
            "options": objects(params.get("options")),
            **kept(params, "_meta"),
        }


def stop(result: Any) -> Frame:
    """Read how a turn ended from the answer to its prompt."""
    given = members(result)
    return {"stopReason": text(given.get("stopReason"), "end_turn"), **kept(given, "usage", "_meta")}


def failure(reason: Frame) -> Frame:
    """Read how a turn ended whose prompt was answered with an error."""
    known = isinstance(reason.get("code"), int) and isinstance(reason.get("message"), str)
    unknown = error(INTERNAL_ERROR, "the agent reported an error")
    return {"stopReason": "error", "error": reason if known else unknown}

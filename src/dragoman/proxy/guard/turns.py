"""The requests of the editor and the answers to them: introduction, sessions, prompts.

Owns which of these requests pass, and what is changed in them (`additions.py`). `exchange.py` calls it with every
request and response, and with updates of sessions; `watch.py` looks at what happens in a turn.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Final, TypeGuard

import msgspec

from dragoman.errors import RequestError
from dragoman.policy.paths import is_below
from dragoman.proxy.guard.additions import OPENING, complete_session, instruct, offer_services, takes_instructions
from dragoman.proxy.guard.session import FOLDED, GuardedSession
from dragoman.proxy.guard.sessions import no_session
from dragoman.schema import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from msgspec import Raw

    from dragoman.proxy.guard.plan import GuardPlan
    from dragoman.proxy.guard.services import GuardServices
    from dragoman.proxy.guard.sessions import GuardedSessions
    from dragoman.proxy.guard.watch import SessionWatch
    from dragoman.wire import Response

_NAMED_LATER: Final = frozenset({"session/new", "session/fork"})
_ENDING: Final = frozenset({"session/close", "session/delete"})
_TERMINAL: Final = b'"terminalId"'
_LOG_FAILED: Final = "dragoman guard: no prompt is passed on, because the audit log cannot be written: "


class _Kind(msgspec.Struct):
    kind: str = msgspec.field(name="sessionUpdate")


class _Peek(msgspec.Struct):
    session: str = msgspec.field(name="sessionId")
    update: _Kind


class _Whole(msgspec.Struct):
    update: msgspec.Raw


_peek: Final = msgspec.json.Decoder(_Peek).decode
_whole: Final = msgspec.json.Decoder(_Whole).decode


class GuardedTurns:
    """The requests of the editor about sessions.

    Args:
        plan: limits, additions.
        say: shows the user a sentence.
    """

    def __init__(
        self,
        plan: GuardPlan,
        sessions: GuardedSessions,
        watch: SessionWatch,
        services: GuardServices,
        say: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._sessions = sessions
        self._watch = watch
        self._services = services
        self._say = say
        self._editor_name: Any = None
        self._agent: dict[str, Any] = {}  # its capabilities
        self._closing: set[asyncio.Task[None]] = set()

    # Requests of the editor

    def begin(self, method: str, params: Raw | None) -> tuple[bytes | None, Any]:
        """Take a request of the editor: its new params, None to pass it unchanged, and what `answered` is called with.

        Raises: RequestError to answer it here.
        """
        if method == "initialize":
            return encode(self._initialize(_members(params))), None
        if method in OPENING:
            return self._open(method, _members(params))
        if method == "session/prompt":
            return self._prompt(_members(params), b"" if params is None else bytes(params))
        if method in _ENDING:
            return None, _or_empty(params).get("sessionId")  # whatever else it is, the agent answers it
        return None, None

    def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        given = params.get("clientCapabilities")
        offered = self._watch.editor = given if isinstance(given, dict) else {}
        self._editor_name = params.get("clientInfo")
        self._services.note_editor(offered)
        return offer_services(params, self._plan.additions)

    def _open(self, method: str, params: dict[str, Any]) -> tuple[bytes | None, Any]:
        cwd, session_id = params.get("cwd"), params.get("sessionId")
        if not _is_path(cwd):
            raise RequestError.invalid_params("The session's folder must be an absolute path", path="$.cwd")
        added = params.get("additionalDirectories")
        folders = list(added) if isinstance(added, list) else []
        if not all(map(_is_path, folders)):
            raise RequestError.invalid_params("A folder must be an absolute path", path="$.additionalDirectories")
        self._check_folders([cwd, *folders])
        if method not in _NAMED_LATER and not (isinstance(session_id, str) and session_id):
            raise RequestError.invalid_params("The session's id must be a text", path="$.sessionId")
        session = GuardedSession("" if method in _NAMED_LATER else str(session_id), cwd, folders)
        additions = self._plan.additions
        changed = None
        if additions.servers or additions.instructions:
            params, notes = complete_session(params, additions, self._agent)
            for note in notes:
                self._say(note)
            session.is_instructed = takes_instructions(additions, self._agent)
            changed = encode(params)
        self._sessions.begin(session)
        return changed, session

    def _check_folders(self, folders: Sequence[str]) -> None:
        roots = self._plan.roots
        for folder in folders:
            real = os.path.realpath(folder)
            if roots and not any(is_below(real, os.path.realpath(root)) for root in roots):
                raise RequestError.internal_error(
                    f"dragoman guard: {folder} is outside of the sandbox ({', '.join(roots)}); "
                    "start the guard in that folder, or name it with --add-dir"
                )

    def _prompt(self, params: dict[str, Any], raw: bytes) -> tuple[bytes | None, Any]:
        session = self._sessions.find_open(str(params.get("sessionId")))
        if session is None:
            raise no_session(str(params.get("sessionId")))
        for notice in self._plan.events.sink.take_notices():
            self._say(notice)
        problem = self._plan.events.sink.problem
        if problem and self._plan.needs_log:
            raise RequestError.internal_error(_LOG_FAILED + problem)
        if not any(other.prompts for other in self._sessions):
            self._services.confinement.arm()  # what changed between turns was not the agent's work
        blocks = params.get("prompt")
        self._watch.begin_turn(session, raw, blocks if isinstance(blocks, list) else [])
        instructions = self._plan.additions.instructions
        if not instructions or session.is_instructed:
            return None, session
        session.is_instructed = True
        return encode(instruct(params, instructions)), session

    def cancelled(self, params: Raw | None) -> None:
        """Note that the editor cancelled a turn."""
        session = self._sessions.find(str(_or_empty(params).get("sessionId")))
        if session is not None:
            session.note_cancel()

    def left_since(self, session: GuardedSession) -> float | None:
        """Return the moment since which a cancelled turn, which is answered now, left commands running; None for none.

        None as well while another prompt runs: the agent's processes do not say which session they belong to.
        """
        is_alone = sum(other.prompts for other in self._sessions) <= 1
        return session.commands.left_since if session.is_cancelled and is_alone else None

    # Responses of the agent

    def answered(self, method: str, context: Any, message: Response) -> None:
        """Take the agent's answer to a request that `begin` took."""
        if message.result is None:
            self.failed(method, context, None if message.error is None else message.error.code)
        elif method == "initialize":
            self._introduce(_or_empty(message.result))
        elif method in OPENING:
            self._opened(method, context, message.result)
        elif method == "session/prompt":
            result = _or_empty(message.result)
            given, reason = result.get("usage"), result.get("stopReason")
            usage = {name: count for name, count in given.items() if name != "_meta"} if isinstance(given, dict) else {}
            self._watch.end_turn(context, reason if isinstance(reason, str) else None, usage)
            if not any(session.prompts for session in self._sessions):
                self._services.confinement.compare()
        elif method in _ENDING and isinstance(context, str):
            self._close(context)

    def failed(self, method: str, context: Any, code: int | None = None) -> None:
        """Note that a request that `begin` took was answered with an error, or not at all."""
        if method in OPENING:
            self._sessions.end_opening(context)
        elif method == "session/prompt":
            self._watch.end_turn(context, None, {}, code)

    def _introduce(self, result: dict[str, Any]) -> None:
        capabilities = result.get("agentCapabilities")
        self._agent = capabilities if isinstance(capabilities, dict) else {}
        self._plan.events.introduced(self._editor_name, result.get("agentInfo"), result.get("protocolVersion"))

    def _opened(self, method: str, session: GuardedSession, result: Raw) -> None:
        named = session
        if not session.id:
            session_id = _or_empty(result).get("sessionId")
            if isinstance(session_id, str) and session_id:
                named = GuardedSession(session_id, session.cwd, session.additional_directories)
                named.is_instructed = session.is_instructed
        added = self._sessions.add(named) if named.id else None
        self._sessions.end_opening(session)
        if added is not None:
            added.open(result)
            self._plan.events.session(added, method)
            self._services.tripwires.add(added.folders)
            self._note_mode(added)

    def _note_mode(self, session: GuardedSession) -> None:
        """State that an agent is in a mode in which it may not ask."""
        mode, asking = session.state.mode, self._plan.asking_mode
        if asking and mode is not None and mode != asking:
            self._say(f"the agent is in its mode {mode}; rules bind it as far as it asks, as in its mode {asking}")

    def _close(self, session_id: str) -> None:
        session = self._sessions.remove(session_id)
        if session is not None:
            session.end()
            self._services.permissions.forget(session)
            task = asyncio.get_running_loop().create_task(self._services.terminals.end_session(session))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    # Updates of the agent

    def update(self, params: Raw | None, line: bytes, pass_on: Callable[[bytes], None]) -> None:
        """Pass an update on as a whole line, then look at it."""
        try:
            seen = _peek(params or b"")
        except (msgspec.MsgspecError, RecursionError):
            pass_on(line + b"\n")  # of a later version of the protocol, or nonsense: the editor decides
            return
        kind = seen.update.kind
        is_call = kind in ("tool_call", "tool_call_update")
        if is_call and _TERMINAL in line and self._services.terminals.run_here:
            line = self._services.terminals.replaced(line)
        pass_on(line + b"\n")
        if kind not in FOLDED and kind != "subagent_update":
            return
        session = self._sessions.find(seen.session)
        if session is None:
            return
        update = _whole(params or b"").update
        if kind == "subagent_update":
            self._add_child(session, update)
        else:
            # Before the first prompt, and while the session is loaded, the agent repeats what happened long ago.
            is_history = not session.turn or self._sessions.is_opening(session.id)
            self._watch.look(kind, update, session, is_history=is_history)

    def _add_child(self, parent: GuardedSession, update: Raw) -> None:
        """Add a session that the agent opened below another one; it works in the same folders."""
        child = _or_empty(update).get("sessionId")
        if isinstance(child, str) and child and self._sessions.find(child) is None:
            session = GuardedSession(child, parent.cwd, parent.additional_directories)
            if self._sessions.add(session) is not None:
                session.begin_turn()
                self._plan.events.session(session, "subagent")


def _is_path(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and os.path.isabs(value) and "\0" not in value


def _members(params: Raw | None) -> dict[str, Any]:
    """Return the params of a request. Raises: RequestError if they are not an object."""
    try:
        return msgspec.json.decode(params or b"{}", type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        raise RequestError.invalid_params("The params must be an object", path="$") from None


def _or_empty(raw: Raw | None) -> dict[str, Any]:
    try:
        return msgspec.json.decode(raw or b"{}", type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        return {}

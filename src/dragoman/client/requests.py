"""Answers what an agent asks of its client, with the services the program offered.

Owns the table from client method to service, the gates (an unoffered method is -32601), and the rule that
permission fails closed. Does not know what a service does.
"""

from __future__ import annotations

import logging
import os.path
from time import monotonic
from typing import TYPE_CHECKING, Any

from dragoman.errors import RequestError
from dragoman.schema import CLIENT_METHODS, UNSET, decode, v1

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from msgspec import Raw

    from dragoman.client.early_updates import EarlyArrivals
    from dragoman.client.services import ClientServices
    from dragoman.client.session import Session
    from dragoman.rpc import Call
    from dragoman.schema import Loss

_log = logging.getLogger("dragoman.client")

_NO_PARAMS = b"{}"
_NO_PERMISSION = v1.RequestPermissionResponse(v1.CancelledPermissionOutcome())
# What a person is asked, and the answer when the asking ends without one.
_QUESTIONS: dict[str, object] = {
    "session/request_permission": _NO_PERMISSION,
    "elicitation/create": v1.CancelElicitation(),
}


class RequestHandler:
    """Dispatches the requests of one agent."""

    def __init__(
        self, services: ClientServices, sessions: dict[str, Session], early: EarlyArrivals, *, is_unstable: bool
    ) -> None:
        self._services = services
        self._sessions = sessions
        self._early = early
        self._is_unstable = is_unstable
        self._open_urls: set[str] = set()
        self._handlers: dict[str, Callable[[Any, Any], Awaitable[object]]] = {
            "session/request_permission": self._permission
        }
        files, terminals, elicitation = services.files, services.terminals, services.elicitation
        if hasattr(files, "read_text_file"):
            self._handlers["fs/read_text_file"] = self._read_text_file
        if hasattr(files, "write_text_file"):
            self._handlers["fs/write_text_file"] = self._write_text_file
        if terminals is not None:
            self._handlers["terminal/create"] = self._create_terminal
            self._handlers["terminal/output"] = terminals.output
            self._handlers["terminal/wait_for_exit"] = terminals.wait_for_exit
            self._handlers["terminal/kill"] = self._kill_terminal
            self._handlers["terminal/release"] = self._release_terminal
        if elicitation is not None:
            self._handlers["elicitation/create"] = self._elicit

    @property
    def capabilities(self) -> v1.ClientCapabilities:
        """What the services amount to. Notices, compaction and boolean options are folded by every session."""
        elicitation = self._services.elicitation
        return v1.ClientCapabilities(
            fs=v1.FileSystemCapabilities(
                read_text_file="fs/read_text_file" in self._handlers,
                write_text_file="fs/write_text_file" in self._handlers,
            ),
            terminal="terminal/create" in self._handlers,
            session=v1.ClientSessionCapabilities(
                config_options=v1.SessionConfigOptionsCapabilities(boolean=v1.BooleanConfigOptionCapabilities()),
                compaction=v1.CompactionCapabilities(),
                notices=v1.NoticeCapabilities(),
            ),
            elicitation=UNSET
            if elicitation is None
            else v1.ElicitationCapabilities(
                form=v1.ElicitationFormCapabilities() if hasattr(elicitation, "form") else UNSET,
                url=v1.ElicitationUrlCapabilities() if hasattr(elicitation, "url") else UNSET,
            ),
            plan=v1.PlanCapabilities() if self._is_unstable else UNSET,
            # The second form is what agents looked for before the first was in the protocol.
            auth=v1.AuthCapabilities(terminal=True) if self._services.terminal_login else UNSET,
            meta={"terminal-auth": True} if self._services.terminal_login else UNSET,
        )

    def serve(self, call: Call, report: Callable[[Loss], None]) -> Coroutine[Any, Any, object]:
        """The work that answers `call`. Raises RequestError or RemoteProtocolError to refuse it at once."""
        method = CLIENT_METHODS.get(call.method)
        extension = self._services.extensions.get(call.method)
        if method is None or not method.is_stable:
            if extension is None or (method is not None and not self._is_unstable):
                raise RequestError.method_not_found(call.method)
            return _extend(
                extension, decode(Any if method is None else method.params, call.params or _NO_PARAMS, report)
            )
        handler = self._handlers.get(call.method)
        if handler is None or method.kind != "request":
            raise RequestError.method_not_found(call.method)
        params = decode(method.params, call.params or _NO_PARAMS, report)
        session_id = getattr(params, "session_id", UNSET)
        if call.method in _QUESTIONS:
            call.cancelled_result = lambda: _QUESTIONS[call.method]
        if session_id is UNSET or session_id is None:
            session = None
        elif session_id in self._sessions:
            session = self._sessions[session_id]
        elif self._early.is_opening:
            return self._answer_later(call, handler, params)
        else:
            raise _no_session(session_id)
        if call.method in _QUESTIONS:
            self._open_question(call, session)
        return _answer(handler, params, session)

    def notice(self, method: str, params: Raw | None) -> Coroutine[Any, Any, object] | None:
        """What a notification leads to, None when nobody listens."""
        if method == "elicitation/complete" and params is not None:
            elicitation_id = decode(v1.CompleteElicitationNotification, params).elicitation_id
            told = getattr(self._services.elicitation, "complete", None)
            if elicitation_id in self._open_urls and told is not None:  # others are ignored (rule 319)
                self._open_urls.discard(elicitation_id)
                work: Coroutine[Any, Any, object] = told(elicitation_id)
                return work
            return None
        extension = self._services.extensions.get(method)
        return None if extension is None else _extend(extension, decode(Any, params or _NO_PARAMS))

    def end(self, session: Session) -> list[Coroutine[Any, Any, object]]:
        """What the services have to do now that a session is over."""
        services = (self._services.files, self._services.terminals, self._services.elicitation)
        found = (getattr(service, "end_session", None) for service in services)
        return [end_session(session) for end_session in found if end_session is not None]

    async def _answer_later(self, call: Call, handler: Callable[[Any, Any], Awaitable[object]], params: Any) -> object:
        """Serves a request about a session which the answer on its way will name."""
        await self._early.named(params.session_id)
        session = self._sessions.get(params.session_id)
        if session is None:
            raise _no_session(params.session_id)
        if call.method in _QUESTIONS:
            self._open_question(call, session)
        return await _answer(handler, params, session)

    @staticmethod
    def _open_question(call: Call, session: Session | None) -> None:
        """A question for a person stays open until answered, or until the turn it belongs to is cancelled."""
        if session is not None:
            session._questions.add(call)
            call.after_response(lambda: session._questions.discard(call))
            if session._turn is not None and session._turn.is_cancelling:
                call.cancel()

    async def _permission(self, request: v1.RequestPermissionRequest, session: Session) -> object:
        session.state.note_permission(request.tool_call)
        service = self._services.permission
        if service is None:
            _log.warning("permission to %r was cancelled: nobody can be asked", _title(request))
            return _NO_PERMISSION
        try:
            outcome = await service(request, session)
        except RequestError:
            raise
        except Exception:
            _log.exception("the permission service failed; the request is cancelled")
            return _NO_PERMISSION
        if isinstance(outcome, str):
            outcome = v1.SelectedPermissionOutcome(outcome)
        if not isinstance(outcome, v1.SelectedPermissionOutcome):
            return _NO_PERMISSION
        if outcome.option_id not in [option.option_id for option in request.options]:
            _log.error("the permission service chose %r, which was not offered; cancelled", outcome.option_id)
            return _NO_PERMISSION
        return v1.RequestPermissionResponse(outcome)

    async def _read_text_file(self, request: v1.ReadTextFileRequest, session: Session) -> object:
        _require_absolute(request.path)
        found = await self._services.files.read_text_file(request, session)  # type: ignore[union-attr]
        return v1.ReadTextFileResponse(found) if isinstance(found, str) else found

    async def _write_text_file(self, request: v1.WriteTextFileRequest, session: Session) -> object:
        _require_absolute(request.path)
        await self._services.files.write_text_file(request, session)  # type: ignore[union-attr]
        return v1.WriteTextFileResponse()

    async def _create_terminal(self, request: v1.CreateTerminalRequest, session: Session) -> object:
        if isinstance(request.cwd, str):
            _require_absolute(request.cwd, "$.cwd")
        assert self._services.terminals is not None
        return v1.CreateTerminalResponse(await self._services.terminals.create(request, session))

    async def _kill_terminal(self, request: v1.KillTerminalRequest, session: Session) -> object:
        assert self._services.terminals is not None
        await self._services.terminals.kill(request, session)
        return v1.KillTerminalResponse()

    async def _release_terminal(self, request: v1.ReleaseTerminalRequest, session: Session) -> object:
        assert self._services.terminals is not None
        await self._services.terminals.release(request, session)
        return v1.ReleaseTerminalResponse()

    async def _elicit(self, request: v1.CreateElicitationRequest, session: Session | None) -> object:
        service: Any = self._services.elicitation
        if isinstance(request, v1.ElicitationFormMode):
            if hasattr(service, "form"):
                return await service.form(request, session)
        elif isinstance(request, v1.ElicitationUrlMode) and hasattr(service, "url"):
            self._open_urls.add(request.elicitation_id)
            return await service.url(request, session)
        raise RequestError.invalid_params("This client did not advertise that mode of elicitation", path="$.mode")


async def _answer(handler: Callable[[Any, Any], Awaitable[object]], params: Any, session: Session | None) -> object:
    if session is None:
        return await handler(params, None)
    session._serving += 1
    try:
        return await handler(params, session)
    finally:
        session._serving -= 1
        session._heard_at = monotonic()


async def _extend(extension: Callable[[Any], Awaitable[Any]], params: Any) -> object:
    return await extension(params)


def _no_session(session_id: str) -> RequestError:
    return RequestError.not_found("No such session on this connection", {"sessionId": session_id})


def _require_absolute(path: str, where: str = "$.path") -> None:
    if not os.path.isabs(path):
        raise RequestError.invalid_params("The path must be absolute", path=where)


def _title(request: v1.RequestPermissionRequest) -> str:
    title = request.tool_call.title
    return title if isinstance(title, str) else request.tool_call.tool_call_id

"""The answers to an agent's requests to its client, by the services that the program offers.

Owns the table from client method to service, the error -32601 for methods that are not offered, and the rule that a
permission request that fails is answered `cancelled`. Does not know what a service does.
"""

from __future__ import annotations

import inspect
import logging
import os.path
from functools import partial
from typing import TYPE_CHECKING, Any

from dragoman.client.services import (
    AnswersForms,
    CompletesUrls,
    EndsSessions,
    OpensUrls,
    ReadsFiles,
    WritesFiles,
)
from dragoman.errors import LocalProtocolError, RequestError
from dragoman.rpc.binding import bind
from dragoman.schema import CLIENT_METHODS, UNSET, decode, v1

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence

    from msgspec import Raw

    from dragoman.client.early_updates import EarlyUpdates
    from dragoman.client.services import ClientServices, Terminals, TracksChanges
    from dragoman.client.session import Session
    from dragoman.client.session_link import SessionLink
    from dragoman.rpc import Call
    from dragoman.schema import Loss, Method
    from dragoman.state import ToolCallState

    _Handler = Callable[[Any, Any], Awaitable[object]]

_log = logging.getLogger("dragoman.client")

_NO_PARAMS = b"{}"
# Questions to the user.
_PERMISSION = "session/request_permission"
_QUESTIONS = frozenset({_PERMISSION, "elicitation/create"})


class RequestHandler:
    """The dispatcher of one agent's requests."""

    def __init__(
        self, services: ClientServices, links: dict[str, SessionLink], early: EarlyUpdates, *, is_unstable: bool
    ) -> None:
        self._services = services
        self._permit = (
            None
            if services.permission is None
            else bind("session/request_permission", services.permission, _SESSION, _permission_members)
        )
        self._extensions = services.extensions
        for name, extension in services.extensions.items():
            if not callable(extension):
                raise LocalProtocolError(f"the handler of {name} is not callable")
        self._links = links
        self._early = early
        self._is_unstable = is_unstable
        self._open_urls: set[str] = set()
        self._handlers: dict[str, _Handler] = {"session/request_permission": self._permission}
        if isinstance(services.files, ReadsFiles):
            self._handlers["fs/read_text_file"] = partial(_read_text_file, services.files)
        if isinstance(services.files, WritesFiles):
            self._handlers["fs/write_text_file"] = partial(_write_text_file, services.files, services.changes)
        if services.terminals is not None:
            self._handlers["terminal/create"] = partial(_create_terminal, services.terminals)
            self._handlers["terminal/output"] = services.terminals.output
            self._handlers["terminal/wait_for_exit"] = services.terminals.wait_for_exit
            self._handlers["terminal/kill"] = partial(_kill_terminal, services.terminals)
            self._handlers["terminal/release"] = partial(_release_terminal, services.terminals)
        if services.elicitation is not None:
            self._handlers["elicitation/create"] = self._elicit

    @property
    def capabilities(self) -> v1.ClientCapabilities:
        """The capabilities of the services. Every session supports notices, compaction and boolean options."""
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
                form=v1.ElicitationFormCapabilities() if isinstance(elicitation, AnswersForms) else UNSET,
                url=v1.ElicitationUrlCapabilities() if isinstance(elicitation, OpensUrls) else UNSET,
            ),
            plan=v1.PlanCapabilities() if self._is_unstable else UNSET,
            # Agents looked for the second form before the first was in the protocol.
            auth=v1.AuthCapabilities(terminal=True) if self._services.terminal_login else UNSET,
            meta={"terminal-auth": True} if self._services.terminal_login else UNSET,
        )

    @property
    def methods(self) -> Mapping[str, Method]:
        """The methods of a client in the version of the protocol that was agreed on."""
        return CLIENT_METHODS

    def serve(self, call: Call, report: Callable[[Loss], None]) -> Coroutine[Any, Any, object]:
        """Return the coroutine that answers `call`.

        Raises: RequestError or RemoteProtocolError to refuse it at once.
        """
        method = self.methods.get(call.method)
        extension = self._extensions.get(call.method)
        fallback = self._services.extension_fallback
        if method is None and extension is None and fallback is not None and call.method.startswith("_"):
            return fallback(call.method, decode(Any, call.params or _NO_PARAMS, report))
        if method is None or not method.is_stable:
            if extension is None or (method is not None and not self._is_unstable):
                raise RequestError.method_not_found(call.method)
            params = decode(Any if method is None else method.params, call.params or _NO_PARAMS, report)
            return _rest_of(extension(params))
        handler = self._handlers.get(call.method)
        if handler is None or method.kind != "request":
            raise RequestError.method_not_found(call.method)
        params = decode(method.params, call.params or _NO_PARAMS, report)
        session_id = getattr(params, "session_id", UNSET)
        if call.method in _QUESTIONS:
            call.cancelled_result = no_permission if call.method == _PERMISSION else v1.CancelElicitation
        if session_id is UNSET or session_id is None:
            return _call(lambda params: handler(params, None), params)
        link = self._links.get(session_id) or self._parent(session_id)
        if link is not None:
            return _answer(call, handler, params, link)
        if self._early.is_opening:
            return self._answer_later(call, handler, params)
        raise _no_session(session_id)

    def notice(self, method: str, params: Raw | None) -> Coroutine[Any, Any, object] | None:
        """Return the coroutine that handles a notification, None if no service takes it."""
        if method == "elicitation/complete" and params is not None:
            elicitation_id = decode(v1.CompleteElicitationNotification, params).elicitation_id
            elicitation: object = self._services.elicitation
            if elicitation_id in self._open_urls and isinstance(elicitation, CompletesUrls):
                self._open_urls.discard(elicitation_id)
                return elicitation.complete(elicitation_id)
            return None  # an id that is not known is ignored (rule 319)
        extension, rest = self._extensions.get(method), self._services.on_extension
        if extension is not None:
            result = extension(decode(Any, params or _NO_PARAMS))
            return _rest_of(result) if inspect.isawaitable(result) else None
        if rest is not None:
            rest(method, decode(Any, params or _NO_PARAMS))
        return None

    def end(self, session: Session) -> list[Coroutine[Any, Any, object]]:
        """Return the coroutines by which the services release what they hold for a session that has ended."""
        offered = self._services
        services: tuple[object, ...] = (offered.files, offered.terminals, offered.elicitation, offered.changes)
        return [service.end_session(session) for service in services if isinstance(service, EndsSessions)]

    def _parent(self, session_id: str) -> SessionLink | None:
        """Return the session whose agent announced this one as the session of a subagent: it answers for it."""
        links = self._links.values()
        return next((link for link in links if session_id in link.session.state.subagents), None)

    async def _answer_later(self, call: Call, handler: _Handler, params: Any) -> object:
        """Answer a request about a session that the expected response will name."""
        await self._early.wait_until_named(params.session_id)
        link = self._links.get(params.session_id)
        if link is None:
            raise _no_session(params.session_id)
        return await _answer(call, handler, params, link)

    async def _permission(self, request: v1.RequestPermissionRequest, session: Session) -> object:
        session.note_permission(request.tool_call)
        if self._services.changes is not None:
            paths = named_paths(session.state.tool_calls[request.tool_call.tool_call_id], session.cwd)
            await self._services.changes.before_write(session, paths)
        return await self._ask(request, session)

    async def _ask(self, request: v1.RequestPermissionRequest, session: Session) -> object:
        """Return the answer of the permission service."""
        service = self._permit
        if service is None:
            _log.warning("permission to %r was cancelled: no user can be asked", _title(request))
            return no_permission()
        try:
            outcome = await service(request, session)
        except RequestError:
            raise
        except Exception:
            _log.exception("the permission service failed; the request is cancelled")
            return no_permission()
        if isinstance(outcome, str):
            outcome = v1.SelectedPermissionOutcome(outcome)
        if not isinstance(outcome, v1.SelectedPermissionOutcome):
            return no_permission()
        if outcome.option_id not in [option.option_id for option in request.options]:
            _log.error(
                "the permission service chose %r, which was not offered; the request is cancelled", outcome.option_id
            )
            return no_permission()
        return v1.RequestPermissionResponse(outcome)

    async def _elicit(self, request: v1.CreateElicitationRequest, session: Session | None) -> object:
        service = self._services.elicitation
        if isinstance(request, v1.ElicitationFormMode) and isinstance(service, AnswersForms):
            return await service.form(request, session)
        if isinstance(request, v1.ElicitationUrlMode) and isinstance(service, OpensUrls):
            self._open_urls.add(request.elicitation_id)
            return await service.url(request, session)
        raise RequestError.invalid_params("This client did not advertise that mode of elicitation", path="$.mode")


def named_paths(call: ToolCallState, cwd: str) -> list[str]:
    """Return the files that a tool call names: its locations, the changes it shows, and what its input names."""
    found = [place.path for place in call.locations]
    found += [item.path for item in call.content if isinstance(item, v1.Diff)]
    if call.raw_input is not UNSET:
        from dragoman.client.reading import ToolInput

        arguments = ToolInput(cwd)
        arguments.read(call.raw_input, is_command=call.kind == "execute")
        found += arguments.paths
    return list(dict.fromkeys(os.path.normpath(os.path.join(cwd, path)) for path in found if "\0" not in path))


# What a permission service can name besides the request and its members.
_SESSION: dict[str, Callable[[Any, Any], Any]] = {"session": lambda _, session: session}


def _permission_members() -> Sequence[str]:
    return v1.RequestPermissionRequest.__struct_fields__


def _rest_of(result: object) -> Coroutine[Any, Any, object]:
    """Return what is left to do after an extension was called: all of an `async def`, nothing of a plain function."""
    return result if inspect.iscoroutine(result) else _result_of(result)


async def _result_of(result: object) -> object:
    return await result if inspect.isawaitable(result) else result


async def _read_text_file(files: ReadsFiles, request: v1.ReadTextFileRequest, session: Session) -> object:
    _require_absolute(request.path)
    found = await files.read_text_file(request, session)
    return v1.ReadTextFileResponse(found) if isinstance(found, str) else found


async def _write_text_file(
    files: WritesFiles, changes: TracksChanges | None, request: v1.WriteTextFileRequest, session: Session
) -> object:
    _require_absolute(request.path)
    if changes is not None:
        await changes.before_write(session, [request.path])
    await files.write_text_file(request, session)
    if changes is not None:
        await changes.after_write(session, request.path)
    return v1.WriteTextFileResponse()


async def _create_terminal(terminals: Terminals, request: v1.CreateTerminalRequest, session: Session) -> object:
    if isinstance(request.cwd, str):
        _require_absolute(request.cwd, "$.cwd")
    return v1.CreateTerminalResponse(await terminals.create(request, session))


async def _kill_terminal(terminals: Terminals, request: v1.KillTerminalRequest, session: Session) -> object:
    await terminals.kill(request, session)
    return v1.KillTerminalResponse()


async def _release_terminal(terminals: Terminals, request: v1.ReleaseTerminalRequest, session: Session) -> object:
    await terminals.release(request, session)
    return v1.ReleaseTerminalResponse()


def no_permission() -> v1.RequestPermissionResponse:
    """Return the response when asking ends without an answer."""
    return v1.RequestPermissionResponse(v1.CancelledPermissionOutcome())


async def _call(handler: Callable[[Any], Awaitable[Any]], params: Any) -> object:
    return await handler(params)


def _answer(call: Call, handler: _Handler, params: Any, link: SessionLink) -> Coroutine[Any, Any, object]:
    """Return the coroutine that answers a request of a session.

    A question is open at once, before the coroutine starts.
    """
    if call.method in _QUESTIONS:
        link.open_question(call)
    return _serve(handler, params, link)


async def _serve(handler: _Handler, params: Any, link: SessionLink) -> object:
    with link.serving():
        return await handler(params, link.session)


def _no_session(session_id: str) -> RequestError:
    return RequestError.not_found("No such session on this connection", {"sessionId": session_id})


def _require_absolute(path: str, where: str = "$.path") -> None:
    if not os.path.isabs(path):
        raise RequestError.invalid_params("The path must be absolute", path=where)


def _title(request: v1.RequestPermissionRequest) -> str:
    title = request.tool_call.title
    return title if isinstance(title, str) else request.tool_call.tool_call_id

"""The sessions of one connection: opening, requests about them, closing.

Owns which sessions are active (from new, load, resume or fork until close, on this connection: rule 120) and the
checks every session request needs. Does not decode parameters or send answers.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from dragoman.agent.handlers import handled
from dragoman.agent.outgoing import require_stable
from dragoman.errors import INVALID_REQUEST, LocalProtocolError, RequestError
from dragoman.schema import v1

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable

    from dragoman.agent.connection import AgentConnection
    from dragoman.agent.handlers import Registered
    from dragoman.agent.session import AgentSession
    from dragoman.rpc import Call
    from dragoman.schema import Method

    Work = Coroutine[Any, Any, object]
    Handler = Callable[..., Awaitable[Any]]

_log = logging.getLogger("dragoman.agent")

# How long a close waits for handlers to obey their cancellation. Clean-up may take a moment; a handler that ignores
# it must not keep the client from being answered.
CLOSE_SECONDS = 10.0


class Sessions:
    """The active sessions by id, and one method per request about them: checks now, work later."""

    def __init__(self, connection: AgentConnection, registered: Registered, *, overlap: str) -> None:
        self._connection = connection
        self._registered = registered
        self._overlap = overlap
        self._active: dict[str, AgentSession] = {}

    def find(self, session_id: str) -> AgentSession:
        """Raises: RequestError -32002 for a session that is not active (rules 119, 342)."""
        session = self._active.get(session_id)
        if session is None:
            raise not_found(session_id)
        return session

    def cancel(self, session_id: str) -> None:
        """Cancel what runs in a session; nothing happens if it is idle or unknown (rule 200)."""
        session = self._active.get(session_id)
        if session is not None:
            session._cancel()

    def end(self, reason: Exception) -> None:
        """End every session with the connection."""
        for session in self._active.values():
            session._end(reason)
        self._active.clear()

    # Opening

    def new(self, call: Call, method: Method, handler: Handler, params: v1.NewSessionRequest) -> Work:
        self._check_workspace(params)
        session = _new_session(self._connection, f"sess_{os.urandom(16).hex()}", params, call)
        session._hold()
        return self._open(call, method, handler, params, session)

    def fork(self, call: Call, method: Method, handler: Handler, params: v1.ForkSessionRequest) -> Work:
        return self.new(call, method, handler, params)  # type: ignore[arg-type]  # the members used are the same

    def load(self, call: Call, method: Method, handler: Handler, params: v1.LoadSessionRequest) -> Work:
        return self._reopen(call, method, handler, params, holds=False)

    def resume(self, call: Call, method: Method, handler: Handler, params: v1.ResumeSessionRequest) -> Work:
        return self._reopen(call, method, handler, params, holds=True)

    def _reopen(
        self,
        call: Call,
        method: Method,
        handler: Handler,
        params: v1.LoadSessionRequest | v1.ResumeSessionRequest,
        *,
        holds: bool,
    ) -> Work:
        self._check_workspace(params)
        active = self._active.get(params.session_id)
        if active is not None and active.turn is not None:
            raise RequestError(INVALID_REQUEST, "A prompt is running in this session", {"sessionId": params.session_id})
        session = _new_session(self._connection, params.session_id, params, call)
        if holds:
            session._hold()
        return self._open(call, method, handler, params, session)

    async def _open(self, call: Call, method: Method, handler: Handler, params: Any, session: AgentSession) -> object:
        """Run the handler; the session is active from the moment its answer is complete."""
        try:
            response = await handled(method.name, handler(params, session), session.id)
            if response is None and not method.null_result_ok:
                response = method.result(session.id)
            response = self._checked(method, response)
            self._take_settings(session, response)
            # Before the answer is written: a prompt that follows it directly must find the session.
            self._activate(session, getattr(response, "session_id", session.id))
        except BaseException:  # cancelled, too: what the handler started must not send for a session that is not there
            session._end(LocalProtocolError("this session was never opened"))
            raise
        call.after_response(session._open)
        if response.config_options:
            response = replace(response, config_options=session._settings.visible())
        return response

    def _take_settings(self, session: AgentSession, response: Any) -> None:
        if response.modes:
            session._settings.offer_modes(response.modes)
        if response.config_options:
            session._settings.offer_options(response.config_options)

    def _activate(self, session: AgentSession, session_id: str) -> None:
        previous = self._active.get(session_id)
        if session_id != session.id:
            session._rename(session_id)
            if previous is not None:
                raise LocalProtocolError(f"the session id {session_id!r} is in use already (rule 85)")
        if previous is not None:
            # It can have begun a turn while the handler ran, and no later cancel would find that.
            previous._cancel()
            previous._end(LocalProtocolError("this session was opened again; use the new one"))
        self._active[session_id] = session

    # Open sessions

    def prompt(self, call: Call, method: Method, handler: Handler, params: v1.PromptRequest) -> Work:
        session = self.find(params.session_id)
        check_blocks(params.prompt, self._registered.accepts)
        turn = session._begin(call, params, may_overlap=self._overlap != "refuse")
        return turn._run(handler, waits=self._overlap == "queue", takes_unstable=self._registered.takes_unstable)

    def set_mode(self, call: Call, method: Method, handler: Handler, params: v1.SetSessionModeRequest) -> Work:
        session = self.find(params.session_id)
        session._settings.check_mode(params.mode_id)
        return self._set_mode(method, handler, params, session)

    async def _set_mode(
        self, method: Method, handler: Handler, params: v1.SetSessionModeRequest, session: AgentSession
    ) -> object:
        response = await handled(method.name, handler(params, session), session.id)
        # After the handler, which may refuse the mode; the update goes out before the answer.
        session._settings.change_mode(params.mode_id)
        follow = session._settings.follow_mode()
        if follow is not None:
            await session.update(follow)
        return self._checked(method, response)

    def set_config_option(
        self, call: Call, method: Method, handler: Handler, params: v1.SetSessionConfigOptionRequest
    ) -> Work:
        session = self.find(params.session_id)
        is_open = params.config_id in self._registered.open_options
        session._settings.check_option(params.config_id, params.value, is_open=is_open)
        return self._set_config_option(method, handler, params, session)

    async def _set_config_option(
        self, method: Method, handler: Handler, params: v1.SetSessionConfigOptionRequest, session: AgentSession
    ) -> object:
        settings = session._settings
        response = await handled(method.name, handler(params, session), session.id)
        if response is None:
            settings.choose_option(params.config_id, params.value)
            response = v1.SetSessionConfigOptionResponse(settings.visible())
        else:
            response = self._checked(method, response)
            response = replace(response, config_options=settings.offer_options(response.config_options))
        follow = settings.follow_options()
        if follow is not None:
            await session.update(follow)
        return response

    # Closing

    def close(self, call: Call, method: Method, handler: Handler, params: v1.CloseSessionRequest) -> Work:
        """Close the session here and now, whatever becomes of this request: later ones for it are refused."""
        session = self.find(params.session_id)
        del self._active[params.session_id]
        session._cancel()
        # Not before: turns that are cancelled may still report how their tool calls ended.
        call.after_response(lambda: session._end(LocalProtocolError("this session was closed")))
        return self._close(method, handler, params, session)

    async def _close(
        self, method: Method, handler: Handler, params: v1.CloseSessionRequest, session: AgentSession
    ) -> object:
        await _stop(session)
        return self._checked(method, await handled(method.name, handler(params, session), session.id))

    def delete(self, call: Call, method: Method, handler: Handler, params: v1.DeleteSessionRequest) -> Work:
        return self._delete(call, method, handler, params)

    async def _delete(self, call: Call, method: Method, handler: Handler, params: v1.DeleteSessionRequest) -> object:
        response = await handled(method.name, handler(params, self._connection.context(call)), params.session_id)
        session = self._active.pop(params.session_id, None)
        if session is not None:
            await _stop(session)
            session._end(LocalProtocolError("this session was deleted"))
        return self._checked(method, response)

    def _checked(self, method: Method, response: Any) -> Any:
        return checked(method, response, takes_unstable=self._registered.takes_unstable)

    def _check_workspace(self, params: v1.NewSessionRequest | v1.LoadSessionRequest | v1.ResumeSessionRequest) -> None:
        """Absolute folders only (rules 87, 141), and only what was advertised (rules 96, 140); nothing is dropped
        silently."""
        require_absolute(params.cwd, "$.cwd")
        directories = params.additional_directories or ()
        if directories and not self._registered.additional_directories:
            raise RequestError.invalid_params(
                "This agent takes no additional directories", path="$.additionalDirectories"
            )
        for index, directory in enumerate(directories):
            require_absolute(directory, f"$.additionalDirectories[{index}]")
        taken = {"http": v1.McpServerHttp, "sse": v1.McpServerSse, "acp": v1.McpServerAcp}
        kinds = (v1.McpServerStdio, *(taken[kind] for kind in self._registered.mcp))
        for index, server in enumerate(params.mcp_servers or ()):
            if not isinstance(server, kinds):
                raise RequestError.invalid_params(
                    "This agent cannot use an MCP server of this type", path=f"$.mcpServers[{index}]"
                )


def _new_session(connection: AgentConnection, session_id: str, params: Any, call: Call) -> AgentSession:
    """Load what a session needs with the first one: `initialize` is answered without it."""
    from dragoman.agent.session import AgentSession

    return AgentSession(connection, session_id, params, call)


async def _stop(session: AgentSession) -> None:
    """Cancel every turn of a session and wait until each was answered (rule 116)."""
    turns = list(session._turns)  # those of now: each takes itself out when it is answered
    session._cancel()
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            for turn in turns:
                await turn.wait()
    except TimeoutError:
        _log.warning("a prompt handler ignores its cancellation; its session is closed all the same")


def checked(method: Method, response: Any, *, takes_unstable: bool) -> Any:
    """Return what a handler returned, if it can be the answer; None is the empty result where there is one.

    Raises: LocalProtocolError otherwise; the client gets an internal error, the log shows what is wrong.
    """
    if response is None and method.null_result_ok:
        return method.result()
    if not isinstance(response, method.result):
        raise LocalProtocolError(
            f"the handler of {method.name} returned {type(response).__name__}, not {method.result.__name__}"
        )
    if not takes_unstable and method.is_stable:
        require_stable(response)
    return response


def check_blocks(prompt: Iterable[v1.ContentBlock], accepts: frozenset[str]) -> None:
    """Raise RequestError -32602 for a kind of block that was not advertised (rules 55, 177).

    A block of unknown type is delivered: the rest of the prompt is worth answering.
    """
    for index, block in enumerate(prompt):
        match block:
            case v1.TextContent():  # first, because most are
                continue
            case v1.ImageContent():
                need = "image"
            case v1.AudioContent():
                need = "audio"
            case v1.EmbeddedResource():
                need = "embedded_context"
            case _:
                continue
        if need not in accepts:
            raise RequestError.invalid_params("This agent does not accept such a block", path=f"$.prompt[{index}]")


def require_folders(params: v1.NewSessionRequest) -> None:
    """Raise RequestError -32602 if a folder of a new session is not on this machine.

    For agents that work on the disk themselves. The role does not call it: the files of an agent may be its client's.
    """
    require_folder(params.cwd, "$.cwd")
    for index, directory in enumerate(params.additional_directories or ()):
        require_folder(directory, f"$.additionalDirectories[{index}]")


def require_folder(path: str, where: str) -> None:
    """Raise RequestError -32602 naming the member and what is wrong with the folder."""
    require_absolute(path, where)
    if not os.path.isdir(path):
        what = "is not a folder" if os.path.lexists(path) else "does not exist on the agent's machine"
        raise RequestError.invalid_params(f"{path} {what}; name an existing folder", path=where)


def require_absolute(path: str, where: str) -> None:
    """Raise RequestError -32602 naming the member."""
    if not os.path.isabs(path):
        raise RequestError.invalid_params(f"The path must be absolute, and {path!r} is not", path=where)


def not_found(session_id: str) -> RequestError:
    return RequestError.not_found("Session not found", {"sessionId": session_id})

"""The handlers that the author of an agent registers.

Owns the decorators and what follows from them: a method is served, and its capability advertised, because a handler for
it is registered. Does not know connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from dragoman.agent.client import ClientError
from dragoman.errors import NOT_FOUND, LocalProtocolError, RequestError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from typing import Literal, TypeAlias

    from dragoman.agent.context import Context
    from dragoman.agent.session import AgentSession
    from dragoman.agent.turn import Turn
    from dragoman.schema import v1

    Accepts: TypeAlias = Literal["image", "audio", "embedded_context"]
    McpKind: TypeAlias = Literal["http", "sse", "acp"]
    PromptItem: TypeAlias = str | v1.ContentBlock | v1.SessionUpdate
    PromptHandler: TypeAlias = (
        Callable[[Turn], Awaitable[v1.PromptResponse | v1.StopReason | None]]
        | Callable[[Turn], AsyncIterator[PromptItem]]
    )
    NewSessionHandler: TypeAlias = Callable[
        [v1.NewSessionRequest, AgentSession], Awaitable[v1.NewSessionResponse | None]
    ]
    P = TypeVar("P", bound=PromptHandler)
    N = TypeVar("N", bound=NewSessionHandler)
    Params = TypeVar("Params")
    Result = TypeVar("Result")
    # A handler of a request about one open session, and of one about the connection as a whole.
    OfSession: TypeAlias = Callable[[Params, AgentSession], Awaitable[Result]]
    OfConnection: TypeAlias = Callable[[Params, Context], Awaitable[Result]]

T = TypeVar("T")


async def handled(method: str, work: Awaitable[T], session_id: str | None = None) -> T:
    """Runs a handler.

    A ClientError that the handler did not catch must not become the answer to the client's own request. A session that
    was not found is named in the answer (rule 342).
    """
    try:
        return await work
    except ClientError as error:
        raise LocalProtocolError(f"the handler of {method} did not catch an error of the client: {error}") from error
    except RequestError as error:
        if error.code == NOT_FOUND and error.data is None and session_id is not None:
            raise RequestError(error.code, error.message, {"sessionId": session_id}) from error
        raise


async def _accept(params: object, session: object) -> None:
    """Default handler of `session/new`: accept."""


class Registered:
    """Every handler of one agent, and the options given with them."""

    def __init__(self, *, takes_unstable: bool) -> None:
        self.takes_unstable = takes_unstable
        self.requests: dict[str, Callable[..., Any]] = {}
        self.notifications: dict[str, Callable[..., Any]] = {}
        self.accepts: frozenset[str] = frozenset()
        self.mcp: frozenset[str] = frozenset()
        self.additional_directories = False
        self.system_prompt: str | None = None

    def find(self, method: str) -> Callable[..., Any] | None:
        """Registers the handler of a request; None when the agent does not serve it."""
        return self.requests.get(method, _accept if method == "session/new" else None)

    def require_unstable(self, what: str) -> None:
        """Raises LocalProtocolError unless the agent opted in."""
        if not self.takes_unstable:
            raise LocalProtocolError(f"{what}: not stable; create the agent with unstable=True")


class Handlers:
    """The decorators of an agent. Registering a method twice is refused."""

    def __init__(self, *, unstable: bool) -> None:
        self.registered = Registered(takes_unstable=unstable)

    @overload
    def prompt(self, handler: P, /) -> P: ...

    @overload
    def prompt(self, /, *, accepts: Sequence[Accepts] = ()) -> Callable[[P], P]: ...

    def prompt(self, handler: Any = None, /, *, accepts: Sequence[Accepts] = ()) -> Any:
        """Registers the handler of `session/prompt`, which every agent needs.

        The handler is an async function of a Turn that returns a stop reason, a PromptResponse or None (`end_turn`), or
        an async generator of text, content blocks and updates.

        Args:
            accepts: The kinds of content that prompts may carry besides text and links.
        """

        def register(handler: P) -> P:
            self.registered.accepts = frozenset(accepts)
            return self._add("session/prompt", handler)

        return register if handler is None else register(handler)

    @overload
    def new_session(self, handler: N, /) -> N: ...

    @overload
    def new_session(
        self,
        /,
        *,
        mcp: Sequence[McpKind] = (),
        additional_directories: bool = False,
        system_prompt: Literal["append", "override"] | None = None,
    ) -> Callable[[N], N]: ...

    def new_session(
        self,
        handler: Any = None,
        /,
        *,
        mcp: Sequence[McpKind] = (),
        additional_directories: bool = False,
        system_prompt: Literal["append", "override"] | None = None,
    ) -> Any:
        """Registers the handler of `session/new`; without one every session is accepted as it is.

        The handler may return None: then the answer carries the id that the library made. Updates that it sends are
        sent after the answer. The options below hold for load, resume and fork too.

        Args:
            mcp: The kinds of MCP server that the agent can use besides stdio; `acp` is not stable.
            additional_directories: Whether a session may have more than one folder.
            system_prompt: How a client may change the system prompt (not stable).
        """
        if system_prompt is not None or "acp" in mcp:
            self.registered.require_unstable("system_prompt and MCP over ACP")

        def register(handler: N) -> N:
            self.registered.mcp = frozenset(mcp)
            self.registered.additional_directories = additional_directories
            self.registered.system_prompt = system_prompt
            return self._add("session/new", handler)

        return register if handler is None else register(handler)

    def load_session(
        self, handler: OfSession[v1.LoadSessionRequest, v1.LoadSessionResponse | None]
    ) -> OfSession[v1.LoadSessionRequest, v1.LoadSessionResponse | None]:
        """Registers the handler of `session/load`: it sends the whole history, then returns (rule 107).

        Raise `RequestError.not_found()` for a session that does not exist.
        """
        return self._add("session/load", handler)

    def resume_session(
        self, handler: OfSession[v1.ResumeSessionRequest, v1.ResumeSessionResponse | None]
    ) -> OfSession[v1.ResumeSessionRequest, v1.ResumeSessionResponse | None]:
        """Registers the handler of `session/resume`; updates are sent after its answer (rule 112)."""
        return self._add("session/resume", handler)

    def list_sessions(
        self, handler: OfConnection[v1.ListSessionsRequest, v1.ListSessionsResponse]
    ) -> OfConnection[v1.ListSessionsRequest, v1.ListSessionsResponse]:
        """Registers the handler of `session/list`: one page of sessions, only those of `cwd` if the request has one."""
        return self._add("session/list", handler)

    def close_session(
        self, handler: OfSession[v1.CloseSessionRequest, v1.CloseSessionResponse | None]
    ) -> OfSession[v1.CloseSessionRequest, v1.CloseSessionResponse | None]:
        """Registers the handler of `session/close`, called after the session's turns were answered (rule 116)."""
        return self._add("session/close", handler)

    def delete_session(
        self, handler: OfConnection[v1.DeleteSessionRequest, v1.DeleteSessionResponse | None]
    ) -> OfConnection[v1.DeleteSessionRequest, v1.DeleteSessionResponse | None]:
        """Registers the handler of `session/delete`. A session that does not exist is not an error (rule 138).

        An open session is closed when the handler returns.
        """
        return self._add("session/delete", handler)

    def set_mode(
        self, handler: OfSession[v1.SetSessionModeRequest, v1.SetSessionModeResponse | None]
    ) -> OfSession[v1.SetSessionModeRequest, v1.SetSessionModeResponse | None]:
        """Registers the handler of `session/set_mode`, called for modes the session offered only."""
        return self._add("session/set_mode", handler)

    def set_config_option(
        self, handler: OfSession[v1.SetSessionConfigOptionRequest, v1.SetSessionConfigOptionResponse | None]
    ) -> OfSession[v1.SetSessionConfigOptionRequest, v1.SetSessionConfigOptionResponse | None]:
        """Registers the handler of `session/set_config_option`, called for options and values the session offered only.

        None means the choice changed nothing else; the library then answers with the complete list (rule 163).
        """
        return self._add("session/set_config_option", handler)

    def authenticate(
        self, handler: OfConnection[v1.AuthenticateRequest, v1.AuthenticateResponse | None]
    ) -> OfConnection[v1.AuthenticateRequest, v1.AuthenticateResponse | None]:
        """Registers the handler of `authenticate`, called for the methods in the agent's `auth_methods` only."""
        return self._add("authenticate", handler)

    def logout(
        self, handler: OfConnection[v1.LogoutRequest, v1.LogoutResponse | None]
    ) -> OfConnection[v1.LogoutRequest, v1.LogoutResponse | None]:
        """Registers the handler of `logout`."""
        return self._add("logout", handler)

    def request(self, method: str) -> Callable[[OfConnection[Any, Any]], OfConnection[Any, Any]]:
        """Registers the handler of an extension request; its name begins with an underscore (rule 331)."""
        if not method.startswith("_"):
            raise LocalProtocolError(f"{method!r}: the name of an extension begins with an underscore")
        return lambda handler: self._add(method, handler)

    def notification(self, method: str) -> Callable[[OfConnection[Any, None]], OfConnection[Any, None]]:
        """Registers the handler of an extension notification, or of `mcp/message` (not stable).

        Handlers start in the order in which notifications arrive.
        """
        if method == "mcp/message":
            self.registered.require_unstable(method)
        elif not method.startswith("_"):
            raise LocalProtocolError(f"{method!r}: the name of an extension begins with an underscore")

        def register(handler: OfConnection[Any, None]) -> OfConnection[Any, None]:
            return _put(self.registered.notifications, method, handler)

        return register

    # Not stable: these need an agent created with unstable=True

    def fork_session(
        self, handler: OfSession[v1.ForkSessionRequest, v1.ForkSessionResponse | None]
    ) -> OfSession[v1.ForkSessionRequest, v1.ForkSessionResponse | None]:
        """Registers the handler of `session/fork`; gets the new session, whose id the library made."""
        return self._add_unstable("session/fork", handler)

    def archive_session(
        self, handler: OfConnection[v1.ArchiveSessionRequest, v1.ArchiveSessionResponse | None]
    ) -> OfConnection[v1.ArchiveSessionRequest, v1.ArchiveSessionResponse | None]:
        """Registers the handler of `session/archive`."""
        return self._add_unstable("session/archive", handler)

    def unarchive_session(
        self, handler: OfConnection[v1.UnarchiveSessionRequest, v1.UnarchiveSessionResponse | None]
    ) -> OfConnection[v1.UnarchiveSessionRequest, v1.UnarchiveSessionResponse | None]:
        """Registers the handler of `session/unarchive`."""
        return self._add_unstable("session/unarchive", handler)

    def session_status(
        self, handler: OfConnection[v1.SessionStatusRequest, v1.SessionStatusResponse]
    ) -> OfConnection[v1.SessionStatusRequest, v1.SessionStatusResponse]:
        """Registers the handler of `session/status`."""
        return self._add_unstable("session/status", handler)

    def set_session_title(
        self, handler: OfConnection[v1.SetSessionTitleRequest, v1.SetSessionTitleResponse]
    ) -> OfConnection[v1.SetSessionTitleRequest, v1.SetSessionTitleResponse]:
        """Registers the handler of `session/set_title`."""
        return self._add_unstable("session/set_title", handler)

    def list_providers(
        self, handler: OfConnection[v1.ListProvidersRequest, v1.ListProvidersResponse]
    ) -> OfConnection[v1.ListProvidersRequest, v1.ListProvidersResponse]:
        """Registers the handler of `providers/list`."""
        return self._add_unstable("providers/list", handler)

    def set_provider(
        self, handler: OfConnection[v1.SetProviderRequest, v1.SetProviderResponse | None]
    ) -> OfConnection[v1.SetProviderRequest, v1.SetProviderResponse | None]:
        """Registers the handler of `providers/set`."""
        return self._add_unstable("providers/set", handler)

    def disable_provider(
        self, handler: OfConnection[v1.DisableProviderRequest, v1.DisableProviderResponse | None]
    ) -> OfConnection[v1.DisableProviderRequest, v1.DisableProviderResponse | None]:
        """Registers the handler of `providers/disable`."""
        return self._add_unstable("providers/disable", handler)

    def auth_status(
        self, handler: OfConnection[v1.AuthStatusRequest, v1.AuthStatusResponse]
    ) -> OfConnection[v1.AuthStatusRequest, v1.AuthStatusResponse]:
        """Registers the handler of `auth/status`."""
        return self._add_unstable("auth/status", handler)

    def _add(self, method: str, handler: T) -> T:
        return _put(self.registered.requests, method, handler)

    def _add_unstable(self, method: str, handler: T) -> T:
        self.registered.require_unstable(method)
        return self._add(method, handler)


def _put(table: dict[str, Any], method: str, handler: T) -> T:
    if method in table:
        raise LocalProtocolError(f"{method} has a handler already")
    if not callable(handler):
        raise LocalProtocolError(f"the handler of {method} is not callable")
    table[method] = handler
    return handler

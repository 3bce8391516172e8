"""The handlers that the author of an agent registers.

Owns the decorators and what follows from them: a method is served, and its capability advertised, because a handler for
it is registered. Does not know connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from dragoman.agent.client import ClientError
from dragoman.errors import NOT_FOUND, LocalProtocolError, RequestError
from dragoman.rpc.binding import bind, bind_one, is_plain_function
from dragoman.schema import AGENT_METHODS, v1

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
    from typing import Literal, TypeAlias

    Accepts: TypeAlias = Literal["image", "audio", "embedded_context"]
    McpKind: TypeAlias = Literal["http", "sse", "acp"]
    PromptItem: TypeAlias = str | v1.ContentBlock | v1.SessionUpdate
    # Handlers are called by `rpc/binding.py`, in order or by the names of their parameters.
    PromptHandler: TypeAlias = (
        Callable[..., Awaitable[v1.PromptResponse | v1.StopReason | None]]
        | Callable[..., AsyncIterator[PromptItem]]
        | Callable[..., Iterator[PromptItem]]
    )
    Result = TypeVar("Result")
    Handler: TypeAlias = Callable[..., Awaitable[Result]] | Callable[..., Result]
    P = TypeVar("P", bound=PromptHandler)
    N = TypeVar("N", bound=Handler[v1.NewSessionResponse | None])

T = TypeVar("T")


async def handled(method: str, work: Awaitable[T], session_id: str | None = None) -> T:
    """Run a handler.

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

    def __init__(self, *, unstable: bool | Collection[str]) -> None:
        self.takes_unstable = unstable is True
        self._opted_in = frozenset(() if isinstance(unstable, bool) else unstable)
        self.requests: dict[str, Callable[..., Any]] = {}
        self.notifications: dict[str, Callable[..., Any]] = {}
        self.accepts: frozenset[str] = frozenset()
        self.mcp: frozenset[str] = frozenset()
        self.additional_directories = False
        self.system_prompt: str | None = None
        self.open_options: frozenset[str] = frozenset()

    def find(self, method: str) -> Callable[..., Any] | None:
        """Return the handler that was registered for a request; None when the agent does not serve it."""
        return self.requests.get(method, _accept if method == "session/new" else None)

    def require_unstable(self, what: str) -> None:
        """Raise LocalProtocolError unless the agent opted in."""
        if not self.takes_unstable and what not in self._opted_in:
            raise LocalProtocolError(f"{what}: not stable; create the agent with unstable=True")


class Handlers:
    """The decorators of an agent. Registering a method twice is refused.

    A handler takes the request and its session (or, for requests without one, its `Context`), in this order, or names
    what it wants of `request`, `session`, `context`, `client` and the members of the request: `def switch(mode_id,
    session)`. It is an `async def` or a plain function, which must not block.
    """

    def __init__(self, *, unstable: bool | Collection[str]) -> None:
        self.registered = Registered(unstable=unstable)

    @overload
    def prompt(self, handler: P, /) -> P: ...

    @overload
    def prompt(self, /, *, accepts: Sequence[Accepts] = ()) -> Callable[[P], P]: ...

    def prompt(self, handler: Any = None, /, *, accepts: Sequence[Accepts] = ()) -> Any:
        """Register the handler of `session/prompt`, which every agent needs.

        The handler is an async function of a Turn that returns a stop reason, a PromptResponse or None (`end_turn`), or
        a generator, async or not, of text, content blocks and updates. It may name what it wants of `turn`, `text`,
        `prompt`, `session`, `client` and `meta` instead: `async def reply(text, session)`.

        Args:
            accepts: The kinds of content that prompts may carry besides text and links.
        """

        def register(handler: P) -> P:
            self.registered.accepts = frozenset(accepts)
            return _put(self.registered.requests, "session/prompt", handler, _bind_prompt(handler))

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
        """Register the handler of `session/new`; without one every session is accepted as it is.

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

    def load_session(self, handler: Handler[v1.LoadSessionResponse | None]) -> Handler[v1.LoadSessionResponse | None]:
        """Register the handler of `session/load`: it sends the whole history, then returns (rule 107).

        Raise `RequestError.not_found()` for a session that does not exist.
        """
        return self._add("session/load", handler)

    def resume_session(
        self, handler: Handler[v1.ResumeSessionResponse | None]
    ) -> Handler[v1.ResumeSessionResponse | None]:
        """Register the handler of `session/resume`; updates are sent after its answer (rule 112)."""
        return self._add("session/resume", handler)

    def list_sessions(self, handler: Handler[v1.ListSessionsResponse]) -> Handler[v1.ListSessionsResponse]:
        """Register the handler of `session/list`: one page of sessions, only those of `cwd` if the request has one."""
        return self._add("session/list", handler)

    def close_session(
        self, handler: Handler[v1.CloseSessionResponse | None]
    ) -> Handler[v1.CloseSessionResponse | None]:
        """Register the handler of `session/close`, called after the session's turns were answered (rule 116)."""
        return self._add("session/close", handler)

    def delete_session(
        self, handler: Handler[v1.DeleteSessionResponse | None]
    ) -> Handler[v1.DeleteSessionResponse | None]:
        """Register the handler of `session/delete`. A session that does not exist is not an error (rule 138).

        An open session is closed when the handler returns.
        """
        return self._add("session/delete", handler)

    def set_mode(self, handler: Handler[v1.SetSessionModeResponse | None]) -> Handler[v1.SetSessionModeResponse | None]:
        """Register the handler of `session/set_mode`, called for modes the session offered only."""
        return self._add("session/set_mode", handler)

    def set_config_option(
        self,
        handler: Handler[v1.SetSessionConfigOptionResponse | None],
        *,
        open_options: Sequence[str] = (),
    ) -> Handler[v1.SetSessionConfigOptionResponse | None]:
        """Register the handler of `session/set_config_option`, called for options and values the session offered only.

        None means the choice changed nothing else; the library then answers with the complete list (rule 163).

        Args:
            open_options: Options that also take texts the session did not offer, such as the name of any model. The
                handler checks these, and returns a list that has the new value.
        """
        self.registered.open_options = frozenset(open_options)
        return self._add("session/set_config_option", handler)

    def authenticate(self, handler: Handler[v1.AuthenticateResponse | None]) -> Handler[v1.AuthenticateResponse | None]:
        """Register the handler of `authenticate`, called for the methods in the agent's `auth_methods` only."""
        return self._add("authenticate", handler)

    def logout(self, handler: Handler[v1.LogoutResponse | None]) -> Handler[v1.LogoutResponse | None]:
        """Register the handler of `logout`."""
        return self._add("logout", handler)

    def request(self, method: str) -> Callable[[Handler[Any]], Handler[Any]]:
        """Register the handler of an extension request; its name begins with an underscore (rule 331)."""
        if not method.startswith("_"):
            raise LocalProtocolError(f"{method!r}: the name of an extension begins with an underscore")
        return lambda handler: self._add(method, handler)

    def notification(self, method: str) -> Callable[[Handler[None]], Handler[None]]:
        """Register the handler of an extension notification, or of `mcp/message` (not stable).

        Handlers start in the order in which notifications arrive.
        """
        if method == "mcp/message":
            self.registered.require_unstable(method)
        elif not method.startswith("_"):
            raise LocalProtocolError(f"{method!r}: the name of an extension begins with an underscore")

        def register(handler: Handler[None]) -> Handler[None]:
            return _put(self.registered.notifications, method, handler, _bind(method, handler))

        return register

    # Not stable: these need an agent created with unstable=True

    def fork_session(self, handler: Handler[v1.ForkSessionResponse | None]) -> Handler[v1.ForkSessionResponse | None]:
        """Register the handler of `session/fork`; it gets the new session, whose id the library made."""
        return self._add_unstable("session/fork", handler)

    def archive_session(
        self, handler: Handler[v1.ArchiveSessionResponse | None]
    ) -> Handler[v1.ArchiveSessionResponse | None]:
        """Register the handler of `session/archive`."""
        return self._add_unstable("session/archive", handler)

    def unarchive_session(
        self, handler: Handler[v1.UnarchiveSessionResponse | None]
    ) -> Handler[v1.UnarchiveSessionResponse | None]:
        """Register the handler of `session/unarchive`."""
        return self._add_unstable("session/unarchive", handler)

    def session_status(self, handler: Handler[v1.SessionStatusResponse]) -> Handler[v1.SessionStatusResponse]:
        """Register the handler of `session/status`."""
        return self._add_unstable("session/status", handler)

    def set_session_title(self, handler: Handler[v1.SetSessionTitleResponse]) -> Handler[v1.SetSessionTitleResponse]:
        """Register the handler of `session/set_title`."""
        return self._add_unstable("session/set_title", handler)

    def list_providers(self, handler: Handler[v1.ListProvidersResponse]) -> Handler[v1.ListProvidersResponse]:
        """Register the handler of `providers/list`."""
        return self._add_unstable("providers/list", handler)

    def set_provider(self, handler: Handler[v1.SetProviderResponse | None]) -> Handler[v1.SetProviderResponse | None]:
        """Register the handler of `providers/set`."""
        return self._add_unstable("providers/set", handler)

    def disable_provider(
        self, handler: Handler[v1.DisableProviderResponse | None]
    ) -> Handler[v1.DisableProviderResponse | None]:
        """Register the handler of `providers/disable`."""
        return self._add_unstable("providers/disable", handler)

    def auth_status(self, handler: Handler[v1.AuthStatusResponse]) -> Handler[v1.AuthStatusResponse]:
        """Register the handler of `auth/status`."""
        return self._add_unstable("auth/status", handler)

    def _add(self, method: str, handler: T) -> T:
        return _put(self.registered.requests, method, handler, _bind(method, handler))

    def _add_unstable(self, method: str, handler: T) -> T:
        self.registered.require_unstable(method)
        return self._add(method, handler)


def _put(table: dict[str, Any], method: str, handler: T, bound: Callable[..., Any]) -> T:
    if method in table:
        raise LocalProtocolError(f"{method} has a handler already")
    table[method] = bound
    return handler


# What a handler can name besides the request. The first is its second argument.
_OF_SESSION: dict[str, Callable[[Any, Any], Any]] = {
    "session": lambda _, session: session,
    "client": lambda _, session: session.client,
}
_OF_CONNECTION: dict[str, Callable[[Any, Any], Any]] = {
    "context": lambda _, context: context,
    "client": lambda _, context: context.client,
}
_OF_TURN: dict[str, Callable[[Any], Any]] = {
    "text": lambda turn: turn.text,
    "prompt": lambda turn: turn.prompt,
    "session": lambda turn: turn.session,
    "client": lambda turn: turn.session.client,
    "meta": lambda turn: turn.meta,
}
# Requests about one session whose handlers get it.
_WITH_SESSION = frozenset(
    f"session/{name}" for name in ("new", "load", "resume", "fork", "close", "set_mode", "set_config_option")
)


def _bind(method: str, handler: Any) -> Callable[..., Any]:
    return bind(
        method, handler, _OF_SESSION if method in _WITH_SESSION else _OF_CONNECTION, lambda: _members_of(method)
    )


def _members_of(method: str) -> Sequence[str]:
    known = AGENT_METHODS.get(method)
    if known is None:
        return ()  # the request of an extension is any JSON value
    # The params of this one are a union of structs with the same members.
    kind = v1.SetSessionConfigSelect if method == "session/set_config_option" else known.params
    fields: Sequence[str] = kind.__struct_fields__
    return fields


def _bind_prompt(handler: Any) -> Callable[..., Any]:
    if not callable(handler):
        raise LocalProtocolError("the handler of session/prompt is not callable")
    if is_plain_function(handler):
        raise LocalProtocolError(
            f"the handler of session/prompt, {handler.__name__}, is a plain function and cannot await turn.say(); "
            "write it as async def, or yield the text"
        )
    return bind_one("session/prompt", handler, _OF_TURN, "turn")

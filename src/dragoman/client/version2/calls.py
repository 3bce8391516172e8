"""The calls of the client in version 2: each takes the params of version 1 and returns its result.

So the checks, the public methods and the programs above exist once. Methods that are the same in both versions are not
listed here. Loaded with the first call to an agent of version 2: the types of that version take long to load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from dragoman.schema import AGENT_METHODS, UNSET, decode, encode, v1, v2
from dragoman.schema.methods import method_tables
from dragoman.state.version2.reading import read_commands, read_options
from dragoman.versions.losses import Losses
from dragoman.versions.version2 import to_v2

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class OpenedSession(v1.NewSessionResponse, frozen=True):
    """The response to session/new or fork; version 2 names the commands in it."""

    available_commands: Sequence[v1.AvailableCommand] = ()


class ReopenedSession(v1.ResumeSessionResponse, frozen=True):
    """The response to session/resume; version 2 names the commands in it."""

    available_commands: Sequence[v1.AvailableCommand] = ()


class Version2Call(NamedTuple):
    """A request in the words of version 2."""

    method: str
    params: object
    result: Any
    """The type of its result."""
    read: Callable[[Any], Any]
    """From that result to the one of version 1."""


def outgoing(method: str, params: Any) -> Version2Call:
    """Return the request of version 2 that does what this one of version 1 does."""
    make = _CALLS.get(method)
    if make is not None:
        return make(params)
    known = method_tables(2).agent.get(method)
    result = AGENT_METHODS[method].result
    if known is None:
        return Version2Call(method, params, result, _as_it_is)
    return Version2Call(method, params, Any, lambda found: decode(result, encode({} if found is None else found)))


def _as_it_is(result: Any) -> Any:
    return result


def _open(method: str) -> Callable[[Any], Version2Call]:
    def read(found: v2.NewSessionResponse | v2.ForkSessionResponse) -> OpenedSession:
        return OpenedSession(
            found.session_id,
            config_options=_options(found.config_options),
            meta=found.meta,
            available_commands=read_commands(found.available_commands or ()),
        )

    result = v2.NewSessionResponse if method == "session/new" else v2.ForkSessionResponse
    return lambda params: Version2Call(method, _with_servers(params), result, read)


def _reopen(*, is_load: bool) -> Callable[[Any], Version2Call]:
    def read(found: v2.ResumeSessionResponse) -> ReopenedSession:
        return ReopenedSession(
            config_options=_options(found.config_options),
            meta=found.meta,
            available_commands=read_commands(found.available_commands or ()),
        )

    def make(params: Any) -> Version2Call:
        made = _with_servers(params)
        if is_load:
            made["replayFrom"] = {"type": "start"}
        return Version2Call("session/resume", made, v2.ResumeSessionResponse, read)

    return make


def _options(options: Any) -> Any:
    return UNSET if options is UNSET or options is None else read_options(options)


def _with_servers(params: Any) -> dict[str, Any]:
    """Return the params as a JSON object, with MCP servers of version 2, which have a type."""
    made: dict[str, Any] = to_v2.system_prompt(msgspec.json.decode(encode(params)))
    servers, _ = to_v2.servers(made.get("mcpServers"), Losses())
    if servers:
        return {**made, "mcpServers": servers}
    made.pop("mcpServers", None)
    return made


def _set_option(params: v1.SetSessionConfigBoolean | v1.SetSessionConfigSelect) -> Version2Call:
    kind = v2.SetSessionConfigBoolean if isinstance(params, v1.SetSessionConfigBoolean) else v2.SetSessionConfigSelect
    made: Any = kind(params.session_id, params.config_id, params.value, meta=params.meta)  # type: ignore[arg-type]
    return Version2Call(
        "session/set_config_option",
        made,
        v2.SetSessionConfigOptionResponse,
        lambda found: v1.SetSessionConfigOptionResponse(read_options(found.config_options), meta=found.meta),
    )


_CALLS: Final[dict[str, Callable[[Any], Version2Call]]] = {
    "session/new": _open("session/new"),
    "session/fork": _open("session/fork"),
    "session/load": _reopen(is_load=True),
    "session/resume": _reopen(is_load=False),
    "session/set_config_option": _set_option,
    "authenticate": lambda params: Version2Call(
        "auth/login",
        v2.LoginAuthRequest(params.method_id, meta=params.meta),
        v2.LoginAuthResponse,
        lambda found: v1.AuthenticateResponse(meta=found.meta),
    ),
    "logout": lambda params: Version2Call(
        "auth/logout",
        v2.LogoutAuthRequest(meta=params.meta),
        v2.LogoutAuthResponse,
        lambda found: v1.LogoutResponse(meta=found.meta),
    ),
}

"""What an agent advertises, derived from what is registered; never declared by hand.

Owns the answer to `initialize` (rules 36-42, 52, 69). Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from msgspec.structs import replace

from dragoman.schema import PROTOCOL_VERSION, UNSET, v1

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from msgspec import UnsetType

    from dragoman.agent.handlers import Registered

T = TypeVar("T")

LEGACY_TERMINAL: Final = "terminal-auth"
"""In `_meta` of the client's capabilities: it runs such commands; in that of a method: the command."""


def answer_initialize(
    registered: Registered, name: v1.Implementation, methods: Sequence[v1.AuthMethod], meta: Mapping[str, Any] | None
) -> v1.InitializeResponse:
    """The version is always ours: it is the requested one or the latest we speak, and no other exists."""
    return v1.InitializeResponse(
        PROTOCOL_VERSION,
        agent_capabilities=capabilities_of(registered, meta),
        auth_methods=list(methods),
        agent_info=name,
    )


def shown_methods(
    methods: Sequence[v1.AuthMethod], *, takes_terminal: bool, reads_legacy: bool = False
) -> list[v1.AuthMethod]:
    """The auth methods this client may see: `terminal` ones only if it can open a terminal (rule 69).

    Args:
        reads_legacy: the client runs the command in `_meta["terminal-auth"]`, as clients did before the protocol had
            the type. Such a method is then shown without the type, and its `_meta` to no other client.
    """
    return [shown for method in methods if (shown := _shown(method, takes_terminal, reads_legacy)) is not None]


def _shown(method: v1.AuthMethod, takes_terminal: bool, reads_legacy: bool) -> v1.AuthMethod | None:
    if not isinstance(method, v1.AuthMethodTerminal):
        return method
    meta = method.meta if isinstance(method.meta, dict) else {}
    if takes_terminal:
        others = {name: value for name, value in meta.items() if name != LEGACY_TERMINAL}
        return method if reads_legacy or len(others) == len(meta) else replace(method, meta=others or UNSET)
    if reads_legacy and LEGACY_TERMINAL in meta:
        return v1.AuthMethodAgent(method.id, method.name, method.description, meta=meta)
    return None


def capabilities_of(registered: Registered, meta: Mapping[str, Any] | None) -> v1.AgentCapabilities:
    """Exactly what the handlers serve; markers are objects, flags are booleans (rules 57, 58)."""

    def marker(method: str, kind: type[T]) -> T | UnsetType:
        return kind() if method in registered.requests else UNSET

    session = v1.SessionCapabilities(
        list=marker("session/list", v1.SessionListCapabilities),
        delete=marker("session/delete", v1.SessionDeleteCapabilities),
        resume=marker("session/resume", v1.SessionResumeCapabilities),
        close=marker("session/close", v1.SessionCloseCapabilities),
        fork=marker("session/fork", v1.SessionForkCapabilities),
        archive=marker("session/archive", v1.SessionArchiveCapabilities),
        status=marker("session/status", v1.SessionStatusCapabilities),
        title=marker("session/set_title", v1.SessionTitleCapabilities),
        additional_directories=(
            v1.SessionAdditionalDirectoriesCapabilities() if registered.additional_directories else UNSET
        ),
        system_prompt=_system_prompt(registered.system_prompt),
    )
    return v1.AgentCapabilities(
        load_session="session/load" in registered.requests,
        prompt_capabilities=v1.PromptCapabilities(
            image="image" in registered.accepts,
            audio="audio" in registered.accepts,
            embedded_context="embedded_context" in registered.accepts,
        ),
        mcp_capabilities=v1.McpCapabilities(
            http="http" in registered.mcp,
            sse="sse" in registered.mcp,
            acp=True if "acp" in registered.mcp else UNSET,
        ),
        session_capabilities=session,
        auth=v1.AgentAuthCapabilities(
            logout=marker("logout", v1.LogoutCapabilities), status=marker("auth/status", v1.AuthStatusCapabilities)
        ),
        providers=marker("providers/list", v1.ProvidersCapabilities),
        meta=UNSET if meta is None else dict(meta),
    )


def _system_prompt(mode: str | None) -> v1.SessionSystemPromptCapabilities | UnsetType:
    if mode is None:
        return UNSET
    if mode == "append":
        return v1.SessionSystemPromptCapabilities()
    override = v1.SessionSystemPromptOverrideCapabilities()
    return v1.SessionSystemPromptCapabilities(v1.SessionSystemPromptModeCapabilities(override))
